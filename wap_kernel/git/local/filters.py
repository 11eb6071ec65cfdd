"""Find files that pass through a filter on their way into a repository and out of it (Git LFS, nbstripout ...).

Filters are programs, and are switched off here. So a large file would be committed itself instead of its pointer, and
checked out as its pointer: that is refused. For other filters the result carries a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wap_kernel.git import output_parser
from wap_kernel.git.local.repository import LocalRepository, split_paths
from wap_kernel.model.git.results import GitError, GitFailureReason, build_git_error
from wap_kernel.providers.process.environment import GIT_CLOSED

LFS = "lfs"
_NOT_FILTERS = frozenset({"unspecified", "unset", "set", GIT_CLOSED})
"""Values that name no filter, or one of ours."""
_MAX_NAMED = 3


def find_filters(repository: LocalRepository, paths: Iterable[str]) -> dict[str, str]:
    """Return the filter that the attributes of the work tree name for each path."""
    found: dict[str, str] = {}
    for portion in split_paths(paths):
        fields = output_parser.split_records(repository.read("check-attr", "-z", "filter", "--", *portion).stdout)
        found.update(
            (path, value) for path, value in zip(fields[::3], fields[2::3], strict=True) if value not in _NOT_FILTERS
        )
    return found


def refuse_lfs(repository: LocalRepository, paths: Collection[str], commit: str | None = None) -> None:
    """Refuse to write `paths` into the work tree if Git LFS stores one of them, also by the attributes of `commit`."""
    _refuse_found_lfs(repository, find_filters(repository, paths))
    attributes = [path for path in paths if path.rpartition("/")[2] == ".gitattributes"]
    if commit is None or not attributes:
        return
    options = ("--quiet", "--fixed-strings", "--no-recurse-submodules", "-e", f"filter={LFS}")
    for portion in split_paths(attributes):
        if repository.read("grep", *options, commit, "--", *portion, accept=(0, 1)).exit_code == 0:
            raise _lfs_error("Its large files would be checked out without their contents.")


def describe_skipped_filters(repository: LocalRepository, paths: Iterable[str]) -> str | None:
    """Return a note about the filters that are not run for `paths`, which are about to be added."""
    found = find_filters(repository, paths)
    _refuse_found_lfs(repository, found)
    if not found:
        return None
    named = ", ".join(sorted(set(found.values()))[:_MAX_NAMED])
    return f"Filters are not run here ({named}), so these were added as they are: {_render_paths(repository, found)}."


def _refuse_found_lfs(repository: LocalRepository, found: dict[str, str]) -> None:
    large = [path for path, name in found.items() if name == LFS]
    if large:
        raise _lfs_error(f"Leave out what it keeps: {_render_paths(repository, large)}.")


def _render_paths(repository: LocalRepository, paths: Collection[str]) -> str:
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return ", ".join(map(repository.render_path, list(paths)[:_MAX_NAMED])) + more


def _lfs_error(what: str) -> GitError:
    return build_git_error(
        GitFailureReason.LFS,
        f"The repository uses Git LFS, which is not supported here. {what} A person does that by hand.",
    )
