"""What only looks: status, diff, log, show, the list of branches.

A path that policy denies is denied here too, in every commit: its contents are in the repository as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wap_kernel.git import diff_parser, output_parser
from wap_kernel.git.local import hardened_env
from wap_kernel.git.local.repository import Work, denied
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.git import names
from wap_kernel.model.git.results import (
    Branch,
    Branches,
    ChangedFile,
    Diff,
    Differences,
    GitStatus,
    Log,
    Reason,
    ShownCommit,
    ShownFile,
    ShownFolder,
    failed,
)
from wap_kernel.model.limits import MAX_GIT_FILE_BYTES, MAX_LOG_COMMITS
from wap_kernel.model.paths import display

_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


def status(work: Work) -> GitStatus:
    raw = work.status()
    upstream, ahead, behind = raw.upstream, raw.ahead, raw.behind
    if upstream is None and raw.branch is not None and raw.commit is not None:
        # `.git/config` is read-only to us, so a branch that was pushed has no upstream there.
        compared = f"HEAD...refs/remotes/{work.remote}/{raw.branch}"
        ran = work.read("rev-list", "--left-right", "--count", compared, "--", accept=(0, 128))
        if ran.exit_code == 0:
            upstream = f"{work.remote}/{raw.branch}"
            ahead, behind = map(int, ran.stdout.split())
    groups = (raw.staged, raw.changed, raw.conflicts)
    staged, changed, conflicts = (_visible(work, group) for group in groups)
    untracked = tuple(display(work.shown(path)) for path in raw.untracked if work.may_read(path))
    hidden = {path for path in raw.paths if not work.may_read(path)}
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
        underway=work.repository.underway,
        note=_note(raw, work.repository.underway),
    )


def _visible(work: Work, changes: Iterable[ChangedFile]) -> tuple[ChangedFile, ...]:
    return tuple(
        ChangedFile(work.shown(change.path), change.kind, None if change.old_path is None else work.shown(change.old_path))
        for change in changes
        if work.may_read(change.path) and (change.old_path is None or work.may_read(change.old_path))
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


def diff(work: Work, paths: Sequence[str] = ()) -> Differences:
    """What is staged, and what is changed but not staged. Of a conflict: against our side."""
    literal = work.literal(paths)
    return Differences(
        staged=_diff(work, ("--cached",), literal),
        unstaged=_diff(work, ("--ours",), literal),
    )


def _diff(work: Work, what: Sequence[str], paths: Sequence[str] = ()) -> Diff:
    options = (*hardened_env.DIFF_OPTIONS, "--raw", "--numstat", "--patch", "-z")
    ran = work.read("diff", *options, *what, "--", *paths, partial=True)
    folder = work.repository.folder
    return diff_parser.parse(ran.stdout, folder=folder, may_read=work.permits.may_read, truncated=ran.truncated)


def log(work: Work, revision: str = "HEAD", *, paths: Sequence[str] = (), limit: int = 50, skip: int = 0) -> Log:
    """Newest first. `revision` may be a range, `main..feature`."""
    if not (1 <= limit <= MAX_LOG_COMMITS and skip >= 0):
        raise InvalidArgument(f"The limit is from 1 to {MAX_LOG_COMMITS}, and skip is not negative.")
    literal = work.literal(paths)
    ends = names.revisions(revision)
    what = "".join(end if end in names.BETWEEN else work.commit(end) for end in ends)
    options = (f"--format={output_parser.COMMIT_FORMAT}", "-z", "--no-show-signature", "--no-color", "--no-patch")
    counts = (f"--max-count={limit + 1}", f"--skip={skip}")
    ran = work.read("log", *options, *counts, "--end-of-options", what, "--", *literal)
    found = tuple(output_parser.commits(ran.stdout))
    return Log(found[:limit], more=len(found) > limit)


def show(work: Work, target: str = "HEAD") -> ShownCommit | ShownFile | ShownFolder:
    """A commit with its changes, or `COMMIT:PATH`, a file or a folder as it was then. Never an object by its own id:
    nobody could tell which path policy should be asked about."""
    revision, colon, path = target.partition(":")
    commit = work.commit(revision or "HEAD")
    if colon:
        return _show_path(work, commit, path)
    (found,) = log(work, commit, limit=1).commits
    before = found.parents[0] if found.parents else _EMPTY_TREE[len(commit)]
    return ShownCommit(found, _diff(work, (before, commit)))


def _show_path(work: Work, commit: str, path: str) -> ShownFile | ShownFolder:
    path = names.path(path) if path else "."
    if not work.may_read(path):
        raise denied(work.shown(path))
    if path == ".":
        return _show_folder(work, commit, path, ())
    listed = output_parser.lines(work.read("ls-tree", "-z", "--long", "--full-tree", commit, "--", path).stdout)
    if not listed:
        raise failed(Reason.UNKNOWN_PATH, "That commit has no file at that path. Look at show COMMIT: for its files.")
    kind, identifier, size = listed[0].split("\t", 1)[0].split()[1:]
    if kind == "tree":
        return _show_folder(work, commit, path, (f"{path}/",))
    if kind != "blob" or not names.is_id(identifier):
        raise failed(Reason.UNKNOWN_PATH, "That path is a submodule: its files are in another repository.")
    ran = work.read("cat-file", "blob", identifier, limit=MAX_GIT_FILE_BYTES, partial=True)
    is_binary = b"\0" in ran.stdout
    return ShownFile(
        path=work.shown(path),
        commit=commit,
        size=int(size),
        content=None if is_binary else ran.stdout.decode("utf-8", "replace"),
        truncated=ran.truncated,
    )


def _show_folder(work: Work, commit: str, path: str, listed: Sequence[str]) -> ShownFolder:
    ran = work.read("ls-tree", "-z", "--full-tree", commit, "--", *listed)
    found = []
    for line in output_parser.lines(ran.stdout):
        about, _, name = line.partition("\t")
        found.append((name, "/" if about.split()[1] == "tree" else ""))
    visible = [(name, end) for name, end in found if work.may_read(name)]
    return ShownFolder(
        path=work.shown(path),
        commit=commit,
        names=tuple(display(name.rpartition("/")[2]) + end for name, end in visible),
        left_out=len(found) - len(visible),
    )


def branches(work: Work) -> Branches:
    form = "--format=%(HEAD)%00%(refname)%00%(objectname)%00%(symref)"
    ran = work.read("for-each-ref", form, "refs/heads", "refs/remotes")
    found = []
    for line in output_parser.rows(ran.stdout):
        mark, name, commit, symbolic = line.split("\0")
        if not symbolic:  # refs/remotes/origin/HEAD is no branch of its own
            _, kind, short = name.split("/", 2)
            found.append(Branch(display(short), commit, mark == "*", kind == "remotes"))
    head = work.read("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1)).stdout
    return Branches(display(output_parser.text(head).strip()) or None, tuple(found))
