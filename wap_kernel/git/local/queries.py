"""Read the workspace's own repository: status, diff, log, show, the list of branches.

A path that policy denies is denied here in every commit too, because its contents are in the repository as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wap_kernel.git import diff_parser, output_parser
from wap_kernel.git.local import hardened_env
from wap_kernel.git.local.repository import LocalRepository, path_denied_error
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git import names
from wap_kernel.model.git.results import (
    Branch,
    BranchList,
    ChangedFile,
    CommitDetails,
    CommitLog,
    Diff,
    FileAtCommit,
    FolderAtCommit,
    GitFailureReason,
    GitStatus,
    WorkingTreeDiff,
    build_git_error,
)
from wap_kernel.model.limits import MAX_GIT_FILE_BYTES, MAX_LOG_COMMITS
from wap_kernel.model.paths import render_path

_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


def status(repository: LocalRepository) -> GitStatus:
    raw = repository.read_status()
    upstream, ahead, behind = raw.upstream, raw.ahead, raw.behind
    if upstream is None and raw.branch is not None and raw.commit is not None:
        # `.git/config` is read-only in the sandbox, so a branch that was pushed has no upstream there.
        compared = f"HEAD...refs/remotes/{repository.remote}/{raw.branch}"
        output = repository.read("rev-list", "--left-right", "--count", compared, "--", accept=(0, 128))
        if output.exit_code == 0:
            upstream = f"{repository.remote}/{raw.branch}"
            ahead, behind = map(int, output.stdout.split())
    groups = (raw.staged, raw.changed, raw.conflicts)
    staged, changed, conflicts = (_select_visible(repository, group) for group in groups)
    untracked = tuple(render_path(repository.render_path(path)) for path in raw.untracked if repository.may_read(path))
    hidden = {path for path in raw.paths if not repository.may_read(path)}
    return GitStatus(
        branch=raw.branch,
        commit=raw.commit,
        upstream=upstream,
        ahead=ahead,
        behind=behind,
        staged=staged,
        changed=changed,
        untracked=untracked,
        conflicts=conflicts,
        left_out=len(hidden),
        underway=repository.info.underway,
        note=_note(raw, repository.info.underway),
    )


def _select_visible(repository: LocalRepository, changes: Iterable[ChangedFile]) -> tuple[ChangedFile, ...]:
    return tuple(
        ChangedFile(
            repository.render_path(change.path),
            change.kind,
            None if change.old_path is None else repository.render_path(change.old_path),
        )
        for change in changes
        if repository.may_read(change.path) and (change.old_path is None or repository.may_read(change.old_path))
    )


def _note(raw: output_parser.RawStatus, underway: str | None) -> str | None:
    if raw.conflicts:
        during = f" of the {underway} under way" if underway else ""
        return f"There are conflicts{during}: edit the files, add them, and commit."
    if underway:
        return f"A {underway} is under way: commit to finish it."
    if raw.branch is None:
        return f"The head is detached at {(raw.commit or '')[:12]}: check out a branch to keep what you commit."
    return None


def diff(repository: LocalRepository, paths: Sequence[str] = ()) -> WorkingTreeDiff:
    """Return the staged changes and the unstaged ones; a conflict is compared with our side."""
    literal = repository.resolve_paths(paths)
    return WorkingTreeDiff(
        staged=_diff(repository, ("--cached",), literal),
        unstaged=_diff(repository, ("--ours",), literal),
    )


def _diff(repository: LocalRepository, what: Sequence[str], paths: Sequence[str] = ()) -> Diff:
    options = (*hardened_env.DIFF_OPTIONS, "--raw", "--numstat", "--patch", "-z")
    output = repository.read("diff", *options, *what, "--", *paths, partial=True)
    folder = repository.info.folder
    return diff_parser.parse_diff(
        output.stdout, folder=folder, may_read=repository.permits.may_read, truncated=output.truncated
    )


def log(
    repository: LocalRepository, revision: str = "HEAD", *, paths: Sequence[str] = (), limit: int = 50, skip: int = 0
) -> CommitLog:
    """Return commits, newest first. `revision` may be a range, `main..feature`."""
    if not (1 <= limit <= MAX_LOG_COMMITS and skip >= 0):
        raise InvalidArgument(f"The limit is from 1 to {MAX_LOG_COMMITS}, and skip is not negative.")
    literal = repository.resolve_paths(paths)
    ends = names.parse_revisions(revision)
    what = "".join(end if end in names.RANGE_DOTS else repository.require_commit(end) for end in ends)
    options = (f"--format={output_parser.COMMIT_FORMAT}", "-z", "--no-show-signature", "--no-color", "--no-patch")
    counts = (f"--max-count={limit + 1}", f"--skip={skip}")
    output = repository.read("log", *options, *counts, "--end-of-options", what, "--", *literal)
    commits = tuple(output_parser.parse_commits(output.stdout))
    return CommitLog(commits[:limit], more=len(commits) > limit)


def show(repository: LocalRepository, target: str = "HEAD") -> CommitDetails | FileAtCommit | FolderAtCommit:
    """Return a commit with its changes; for `COMMIT:PATH` the file or the folder as it was in that commit.

    An object is never shown by its own id, because its path, which policy decides about, would be unknown.
    """
    revision, colon, path = target.partition(":")
    commit = repository.require_commit(revision or "HEAD")
    if colon:
        return _show_path(repository, commit, path)
    (details,) = log(repository, commit, limit=1).commits
    before = details.parents[0] if details.parents else _EMPTY_TREE[len(commit)]
    return CommitDetails(details, _diff(repository, (before, commit)))


def _show_path(repository: LocalRepository, commit: str, path: str) -> FileAtCommit | FolderAtCommit:
    path = names.parse_git_path(path) if path else "."
    if not repository.may_read(path):
        raise path_denied_error(repository.render_path(path))
    if path == ".":
        return _show_folder(repository, commit, path, ())
    listed = output_parser.split_records(
        repository.read("ls-tree", "-z", "--long", "--full-tree", commit, "--", path).stdout
    )
    if not listed:
        raise build_git_error(
            GitFailureReason.UNKNOWN_PATH, "The commit has no file at that path. Look at show COMMIT: for its files."
        )
    kind, identifier, size = listed[0].split("\t", 1)[0].split()[1:]
    if kind == "tree":
        return _show_folder(repository, commit, path, (f"{path}/",))
    if kind != "blob" or not names.is_commit_id(identifier):
        raise build_git_error(
            GitFailureReason.UNKNOWN_PATH, "The path is a submodule: its files are in another repository."
        )
    output = repository.read("cat-file", "blob", identifier, limit=MAX_GIT_FILE_BYTES, partial=True)
    is_binary = b"\0" in output.stdout
    return FileAtCommit(
        path=repository.render_path(path),
        commit=commit,
        size=int(size),
        content=None if is_binary else output.stdout.decode("utf-8", "replace"),
        truncated=output.truncated,
    )


def _show_folder(repository: LocalRepository, commit: str, path: str, listed: Sequence[str]) -> FolderAtCommit:
    output = repository.read("ls-tree", "-z", "--full-tree", commit, "--", *listed)
    entries = []
    for line in output_parser.split_records(output.stdout):
        about, _, name = line.partition("\t")
        entries.append((name, "/" if about.split()[1] == "tree" else ""))
    visible = [(name, end) for name, end in entries if repository.may_read(name)]
    return FolderAtCommit(
        path=repository.render_path(path),
        commit=commit,
        names=tuple(render_path(name.rpartition("/")[2]) + end for name, end in visible),
        left_out=len(entries) - len(visible),
    )


def branches(repository: LocalRepository) -> BranchList:
    form = "--format=%(HEAD)%00%(refname)%00%(objectname)%00%(symref)"
    output = repository.read("for-each-ref", form, "refs/heads", "refs/remotes")
    listed = []
    for line in output_parser.split_lines(output.stdout):
        mark, name, commit, symbolic = line.split("\0")
        if not symbolic:  # refs/remotes/origin/HEAD is no branch of its own
            _, kind, short = name.split("/", 2)
            listed.append(Branch(render_path(short), commit, mark == "*", kind == "remotes"))
    head = repository.read("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1)).stdout
    return BranchList(render_path(output_parser.decode_text(head).strip()) or None, tuple(listed))
