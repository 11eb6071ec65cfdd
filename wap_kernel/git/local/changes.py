"""Change the workspace's own repository: add, restore, commit, checkout, branches.

In the sandbox a file that policy denies appears empty. To git that is a change, and `add .` would commit the emptied
file. So folders are expanded into the files that changed, without those that policy denies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wap_kernel.git import output_parser
from wap_kernel.git.local import filters
from wap_kernel.git.local.commit_index import open_commit_index
from wap_kernel.git.local.queries import branches, log
from wap_kernel.git.local.repository import LocalRepository, path_denied_error, split_paths
from wap_kernel.model.errors import InvalidArgument, PermissionDenied
from wap_kernel.model.git import names
from wap_kernel.model.git.results import (
    AddResult,
    BranchList,
    ChangedFile,
    CheckoutResult,
    CommitResult,
    GitError,
    GitFailureReason,
    RestoreResult,
    build_git_error,
)
from wap_kernel.model.limits import MAX_COMMIT_MESSAGE_BYTES
from wap_kernel.model.paths import render_path

_MAX_NAMED = 5


def add(repository: LocalRepository, paths: Sequence[str]) -> AddResult:
    if not paths:
        raise InvalidArgument("No files are named.", hint='Name them, or "." for all that changed.')
    literal = repository.resolve_paths(paths)
    raw = repository.read_status(*literal, all_untracked=True)
    unstaged = [change.path for change in (*raw.changed, *raw.conflicts)]
    changed = dict.fromkeys((*unstaged, *raw.untracked))
    wanted = [path for path in changed if repository.may_read(path)]
    odd = next((path for path in wanted if render_path(path) != path), None)
    if odd is not None:
        raise build_git_error(
            GitFailureReason.UNKNOWN_PATH,
            f"The name of a file is not UTF-8: {render_path(odd)}. Rename it, or leave it out.",
        )
    gone = {change.path for change in raw.changed if change.kind == "deleted"}
    note = filters.describe_skipped_filters(repository, [path for path in wanted if path not in gone])
    # What has not changed is left to git, which says what is wrong with a name that it does not know.
    known = tuple(path for path in literal if path == "." or any(_covers(path, one) for one in raw.paths))
    replaced = _folders_above(path for path in changed if not repository.may_read(path)).intersection(wanted)
    for portion in split_paths(replaced):
        repository.change("rm", "--cached", "--quiet", "--", *portion)
    whole = (path for path in wanted if path not in replaced)
    for portion in split_paths((*whole, *(path for path in literal if path not in known))):
        repository.change("add", "--all", "--no-warn-embedded-repo", "--", *portion)
    return AddResult(tuple(map(repository.render_path, wanted)), left_out=len(changed) - len(wanted), note=note)


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Return the folders that hold one of `paths`: adding such a name, once a file's, would add all that is in it."""
    return {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}


def _covers(path: str, other: str) -> bool:
    return path == "." or other.rstrip("/") == path or other.startswith(f"{path}/")


def restore(
    repository: LocalRepository, paths: Sequence[str], *, staged: bool = False, source: str | None = None
) -> RestoreResult:
    """Put files back as the index has them, with `staged` the index as the last commit has it; or as `source` has."""
    if not paths:
        raise InvalidArgument("No files are named.", hint="Name the files to restore.")
    literal = repository.resolve_paths(paths)
    commit = repository.require_commit(source) if source is not None else None
    compared = ("--cached",) if staged else ()
    output = repository.read(
        "diff", "--name-only", "--no-renames", "-z", *compared, *((commit,) if commit else ()), "--", *literal
    )
    changed = output_parser.split_records(output.stdout)
    unknown = [path for path in literal if path != "." and not any(_covers(path, one) for one in changed)]
    refused = [path for path in (*changed, *unknown) if not staged and not repository.may_write(path)]
    named = [path for path in refused if path in literal]
    if named:
        raise path_denied_error(repository.render_path(named[0]))
    wanted = [path for path in changed if path not in refused and repository.may_read(path)]
    if not staged:
        filters.refuse_lfs(repository, wanted)
    options = ["--quiet", "--no-recurse-submodules", "--staged" if staged else "--worktree"]
    if commit:
        options.append(f"--source={commit}")
    for portion in split_paths((*wanted, *unknown)):
        repository.change("restore", *options, "--", *portion)
    return RestoreResult(tuple(map(repository.render_path, wanted)))


def commit(repository: LocalRepository, message: str, files: Sequence[str] = ()) -> CommitResult:
    """Commit `files` and nothing else if some are named, else what is staged; a merge is committed as a whole."""
    if not message.strip():
        raise InvalidArgument("The message is empty.", hint="Say in a sentence what changed.")
    if len(message.encode("utf-8", "replace")) > MAX_COMMIT_MESSAGE_BYTES:
        raise InvalidArgument(f"The message is too long; at most {MAX_COMMIT_MESSAGE_BYTES} bytes.")
    if not files:
        return _commit_staged(repository, message)
    is_partial = repository.info.underway is None and not repository.read_status().conflicts
    with open_commit_index(repository, is_partial=is_partial) as indexed:
        note = add(indexed, files).note
        made = _commit_staged(indexed, message)
    add(repository, files)
    return replace(made, note=" ".join(filter(None, (note, made.note))) or None)


def _commit_staged(repository: LocalRepository, message: str) -> CommitResult:
    raw = repository.read_status()
    if raw.conflicts:
        conflicts = tuple(
            repository.render_path(change.path) for change in raw.conflicts if repository.may_read(change.path)
        )
        failure = build_git_error(
            GitFailureReason.CONFLICTS, "There are merge conflicts. Edit the files, add them, and commit again."
        ).failure
        raise GitError(type(failure)(failure.reason, failure.text, 1, "", conflicts))
    is_merge = repository.info.underway == "merge"
    if not is_merge and not all(_may_commit(repository, change) for change in raw.staged):
        raise PermissionDenied(
            "A staged file lies outside of where you may work, and would be committed with the rest.",
            hint="Name the files to commit. A person commits the rest, or unstages it with `git restore --staged`.",
        )
    if not raw.staged and not is_merge:
        # Checked here, not left to git: its answer would be a status that looks into submodules.
        raise build_git_error(
            GitFailureReason.NOTHING, "Nothing is staged, so there is nothing to commit. Name the files, or add them."
        )
    options = ("--quiet", "--no-verify", "--no-gpg-sign", "--no-status", "--cleanup=whitespace")
    repository.change("commit", *options, f"--message={message}")
    (made,) = log(repository, "HEAD", limit=1).commits
    note = None if raw.branch else "The head is detached: make a branch, or this commit will be hard to find."
    return CommitResult(made.id, raw.branch, made.author, files=len(raw.staged), note=note)


def _may_commit(repository: LocalRepository, change: ChangedFile) -> bool:
    return repository.may_read(change.path) and (change.old_path is None or repository.may_read(change.old_path))


def checkout(repository: LocalRepository, name: str) -> CheckoutResult:
    """Switch to a branch, and create one that does not exist from the remote's of that name or from the head.

    A tag or a commit detaches the head.
    """
    try:
        branch = names.check_branch_name(name)
    except InvalidArgument:
        return _detach(repository, repository.require_commit(names.check_revision(name)))
    commit = repository.find_ref(f"refs/heads/{branch}")
    if commit is not None:
        _check_checkout(repository, commit)
        repository.change("switch", "--quiet", "--no-guess", "--no-recurse-submodules", branch)
        return CheckoutResult(branch, commit, created=False)
    tag = repository.find_ref(f"refs/tags/{branch}")
    if tag is not None:
        return _detach(repository, tag)
    start = repository.find_ref(f"refs/remotes/{repository.remote}/{branch}")
    if start is not None:
        _check_checkout(repository, start)
    _switch_to_new(repository, branch, start)
    note = f"It follows {repository.remote}/{branch}." if start is not None else None
    return CheckoutResult(branch, repository.find_commit("HEAD"), created=True, note=note)


def _switch_to_new(repository: LocalRepository, branch: str, start: str | None) -> None:
    starts = (start,) if start is not None else ()
    repository.change("switch", "--quiet", "--no-track", "--no-guess", "--no-recurse-submodules", "-c", branch, *starts)


def _detach(repository: LocalRepository, commit: str) -> CheckoutResult:
    _check_checkout(repository, commit)
    repository.change("switch", "--quiet", "--detach", "--no-recurse-submodules", commit)
    return CheckoutResult(
        None, commit, created=False, note="The head is detached: make a branch to keep what you commit."
    )


def _check_checkout(repository: LocalRepository, commit: str) -> None:
    """Refuse to check out a commit in which a protected path, or one of Git LFS, differs from the head."""
    here = repository.find_commit("HEAD")
    if here is None:
        output = repository.read("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    else:
        output = repository.read("diff-tree", "-r", "-z", "--name-only", "--no-renames", here, commit)
    changed = output_parser.split_records(output.stdout)
    check_writes(repository, changed)
    filters.refuse_lfs(repository, changed, commit)


def check_writes(repository: LocalRepository, paths: Iterable[str]) -> None:
    refused = [path for path in paths if not repository.may_write(path)]
    if refused:
        listed = (
            ", ".join(repository.render_path(path) for path in refused[:_MAX_NAMED] if repository.may_read(path))
            or "hidden ones"
        )
        raise PermissionDenied(
            f"The operation would change {len(refused)} protected paths: {listed}",
            hint="A person does this by hand, or policy opens these paths.",
            paths=len(refused),
        )


def create_branch(repository: LocalRepository, name: str, start: str = "HEAD") -> BranchList:
    branch = names.check_branch_name(name)
    repository.change("branch", "--no-track", branch, repository.require_commit(start))
    return branches(repository)


def delete_branch(repository: LocalRepository, name: str, *, force: bool = False) -> BranchList:
    """Delete a branch of the workspace; with `force` also one whose commits are nowhere else."""
    repository.change("branch", "-D" if force else "-d", "--", names.check_branch_name(name))
    return branches(repository)
