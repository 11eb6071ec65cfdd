"""What changes the workspace's own repository: add, restore, commit, checkout, branches.

In the sandbox a file that policy denies is shown empty. To git that is a change, and `add .` would commit the emptied
file. So folders are spread out into the files that changed, without those that policy denies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wap_kernel.git import output_parser
from wap_kernel.git.local import filters
from wap_kernel.git.local.queries import branches, log
from wap_kernel.git.local.repository import Work, denied, portions
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.git import names
from wap_kernel.model.git.results import (
    Added,
    Branches,
    ChangedFile,
    CheckedOut,
    Committed,
    GitFailed,
    Reason,
    Restored,
    failed,
)
from wap_kernel.model.limits import MAX_COMMIT_MESSAGE_BYTES
from wap_kernel.model.paths import display

_SHOWN = 5


def add(work: Work, paths: Sequence[str]) -> Added:
    if not paths:
        raise InvalidArgument("No files are named.", hint='Name them, or "." for all that changed.')
    literal = work.literal(paths)
    raw = work.status(*literal, all_untracked=True)
    unstaged = [change.path for change in (*raw.changed, *raw.conflicts)]
    changed = dict.fromkeys((*unstaged, *raw.untracked))
    wanted = [path for path in changed if work.may_read(path)]
    odd = next((path for path in wanted if display(path) != path), None)
    if odd is not None:
        raise failed(
            Reason.UNKNOWN_PATH, f"The name of a file is not UTF-8: {display(odd)}. Rename it, or leave it out."
        )
    gone = {change.path for change in raw.changed if change.kind == "deleted"}
    note = filters.left_undone(work, [path for path in wanted if path not in gone])
    # What has not changed is left to git, which says what is wrong with a name that it does not know.
    known = tuple(path for path in literal if path == "." or any(_covers(path, one) for one in raw.paths))
    replaced = _above(path for path in changed if not work.may_read(path)).intersection(wanted)
    for portion in portions(replaced):
        work.change("rm", "--cached", "--quiet", "--", *portion)
    whole = (path for path in wanted if path not in replaced)
    for portion in portions((*whole, *(path for path in literal if path not in known))):
        work.change("add", "--all", "--no-warn-embedded-repo", "--", *portion)
    return Added(tuple(map(work.shown, wanted)), left_out=len(changed) - len(wanted), note=note)


def _above(paths: Iterable[str]) -> set[str]:
    """The folders that hold one of `paths`: to add such a name, once a file's, would add all that is in it now."""
    return {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}


def _covers(path: str, other: str) -> bool:
    return path == "." or other.rstrip("/") == path or other.startswith(f"{path}/")


def restore(work: Work, paths: Sequence[str], *, staged: bool = False, source: str | None = None) -> Restored:
    """Put files back as the index has them, with `staged` the index as the last commit has it; or as `source` has."""
    if not paths:
        raise InvalidArgument("No files are named.", hint="Name the files to restore.")
    literal = work.literal(paths)
    commit = work.commit(source) if source is not None else None
    compared = ("--cached",) if staged else ()
    ran = work.read(
        "diff", "--name-only", "--no-renames", "-z", *compared, *((commit,) if commit else ()), "--", *literal
    )
    changed = output_parser.lines(ran.stdout)
    unknown = [path for path in literal if path != "." and not any(_covers(path, one) for one in changed)]
    refused = [path for path in (*changed, *unknown) if not staged and not work.may_write(path)]
    named = [path for path in refused if path in literal]
    if named:
        raise denied(work.shown(named[0]))
    wanted = [path for path in changed if path not in refused and work.may_read(path)]
    if not staged:
        filters.refuse_lfs(work, wanted)
    options = ["--quiet", "--no-recurse-submodules", "--staged" if staged else "--worktree"]
    if commit:
        options.append(f"--source={commit}")
    for portion in portions((*wanted, *unknown)):
        work.change("restore", *options, "--", *portion)
    return Restored(tuple(map(work.shown, wanted)))


def commit(work: Work, message: str, files: Sequence[str] = ()) -> Committed:
    """Stage `files` if some are named, and commit what is staged."""
    if not message.strip():
        raise InvalidArgument("The message is empty.", hint="Say in a sentence what changed.")
    if len(message.encode("utf-8", "replace")) > MAX_COMMIT_MESSAGE_BYTES:
        raise InvalidArgument(f"The message is too long; at most {MAX_COMMIT_MESSAGE_BYTES} bytes.")
    notes = [add(work, files).note] if files else []
    raw = work.status()
    if raw.conflicts:
        conflicts = tuple(work.shown(change.path) for change in raw.conflicts if work.may_read(change.path))
        failure = failed(
            Reason.CONFLICTS, "There are merge conflicts. Edit the files, add them, and commit again."
        ).failure
        raise GitFailed(type(failure)(failure.reason, failure.text, 1, "", conflicts))
    is_merge = work.repository.underway == "merge"
    if not is_merge and not all(_may_commit(work, change) for change in raw.staged):
        raise PermissionDenied(
            "Something is staged that lies outside of where you may work, and would be committed with the rest.",
            hint="A person commits it, or unstages it with `git restore --staged`.",
        )
    if not raw.staged and not is_merge:
        # Asked here, not left to git: its answer would be a status that looks into submodules.
        raise failed(Reason.NOTHING, "Nothing is staged, so there is nothing to commit. Name the files, or add them.")
    options = ("--quiet", "--no-verify", "--no-gpg-sign", "--no-status", "--cleanup=whitespace")
    work.change("commit", *options, f"--message={message}")
    (made,) = log(work, "HEAD", limit=1).commits
    if not raw.branch:
        notes.append("The head is detached: make a branch, or this commit will be hard to find.")
    note = " ".join(filter(None, notes)) or None
    return Committed(made.id, raw.branch, made.author, files=len(raw.staged), note=note)


def _may_commit(work: Work, change: ChangedFile) -> bool:
    return work.may_read(change.path) and (change.old_path is None or work.may_read(change.old_path))


def checkout(work: Work, name: str) -> CheckedOut:
    """Go to a branch; one that does not exist is made, from the remote's of that name or from here. A tag or a commit
    detaches the head."""
    try:
        branch = names.branch(name)
    except InvalidArgument:
        return _detach(work, work.commit(names.revision(name)))
    commit = work.ref(f"refs/heads/{branch}")
    if commit is not None:
        _check_writes(work, commit)
        work.change("switch", "--quiet", "--no-guess", "--no-recurse-submodules", branch)
        return CheckedOut(branch, commit, created=False)
    tag = work.ref(f"refs/tags/{branch}")
    if tag is not None:
        return _detach(work, tag)
    start = work.ref(f"refs/remotes/{work.remote}/{branch}")
    if start is not None:
        _check_writes(work, start)
    _switch_to_new(work, branch, start)
    note = f"It follows {work.remote}/{branch}." if start is not None else None
    return CheckedOut(branch, work.find("HEAD"), created=True, note=note)


def _switch_to_new(work: Work, branch: str, start: str | None) -> None:
    starts = (start,) if start is not None else ()
    work.change("switch", "--quiet", "--no-track", "--no-guess", "--no-recurse-submodules", "-c", branch, *starts)


def _detach(work: Work, commit: str) -> CheckedOut:
    _check_writes(work, commit)
    work.change("switch", "--quiet", "--detach", "--no-recurse-submodules", commit)
    return CheckedOut(None, commit, created=False, note="The head is detached: make a branch to keep what you commit.")


def _check_writes(work: Work, commit: str) -> None:
    """Refuse to go to a commit in which a protected path, or one of Git LFS, differs from here."""
    here = work.find("HEAD")
    if here is None:
        ran = work.read("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    else:
        ran = work.read("diff-tree", "-r", "-z", "--name-only", "--no-renames", here, commit)
    changed = output_parser.lines(ran.stdout)
    check_writes(work, changed)
    filters.refuse_lfs(work, changed, commit)


def check_writes(work: Work, paths: Iterable[str]) -> None:
    refused = [path for path in paths if not work.may_write(path)]
    if refused:
        shown = ", ".join(work.shown(path) for path in refused[:_SHOWN] if work.may_read(path)) or "hidden ones"
        raise PermissionDenied(
            f"It would change {len(refused)} protected paths: {shown}",
            hint="A person does this by hand, or policy opens these paths.",
            paths=len(refused),
        )


def create_branch(work: Work, name: str, start: str = "HEAD") -> Branches:
    branch = names.branch(name)
    work.change("branch", "--no-track", branch, work.commit(start))
    return branches(work)


def delete_branch(work: Work, name: str, *, force: bool = False) -> Branches:
    """Of the workspace only; with `force` also one whose commits are nowhere else."""
    work.change("branch", "-D" if force else "-d", "--", names.branch(name))
    return branches(work)
