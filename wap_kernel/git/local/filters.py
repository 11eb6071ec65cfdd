"""Files that pass through a filter on their way into a repository and out of it (Git LFS, nbstripout ...).

Filters are programs, and are switched off here. So a large file would be committed itself in the place of its pointer,
and checked out as its pointer: that is refused. What other filters would have done is only said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wap_kernel.git import output_parser
from wap_kernel.git.local.repository import Work, portions
from wap_kernel.model.git.results import GitFailed, Reason, failed
from wap_kernel.providers.process.environment import GIT_CLOSED

LFS = "lfs"
_NONE = frozenset({"unspecified", "unset", "set", GIT_CLOSED})
"""Values that name no filter, or one of ours."""
_SHOWN = 3


def by_path(work: Work, paths: Iterable[str]) -> dict[str, str]:
    """The filters that the attributes of the work tree name."""
    found: dict[str, str] = {}
    for portion in portions(paths):
        said = output_parser.lines(work.read("check-attr", "-z", "filter", "--", *portion).stdout)
        found.update((path, value) for path, value in zip(said[::3], said[2::3], strict=True) if value not in _NONE)
    return found


def refuse_lfs(work: Work, paths: Collection[str], commit: str | None = None) -> None:
    """For what is about to be written into the work tree, from `commit` if that has attributes of its own."""
    _refuse(work, by_path(work, paths))
    attributes = [path for path in paths if path.rpartition("/")[2] == ".gitattributes"]
    if commit is None or not attributes:
        return
    options = ("--quiet", "--fixed-strings", "--no-recurse-submodules", "-e", f"filter={LFS}")
    for portion in portions(attributes):
        if work.read("grep", *options, commit, "--", *portion, accept=(0, 1)).exit_code == 0:
            raise _uses_lfs("It would be checked out without the contents of its large files.")


def left_undone(work: Work, paths: Iterable[str]) -> str | None:
    """What is to be said of what is about to be added."""
    found = by_path(work, paths)
    _refuse(work, found)
    if not found:
        return None
    named = ", ".join(sorted(set(found.values()))[:_SHOWN])
    return f"Filters are not run here ({named}), so these were added as they are: {_some(work, found)}."


def _refuse(work: Work, found: dict[str, str]) -> None:
    large = [path for path, name in found.items() if name == LFS]
    if large:
        raise _uses_lfs(f"Leave out what it keeps: {_some(work, large)}.")


def _some(work: Work, paths: Collection[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(work.shown, list(paths)[:_SHOWN])) + more


def _uses_lfs(what: str) -> GitFailed:
    return failed(
        Reason.LFS, f"The repository uses Git LFS, which is not supported here. {what} A person does that by hand."
    )
