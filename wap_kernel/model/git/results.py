"""The results and failures of git operations. Paths are relative to the workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from wap_kernel.model.results import ChangeResult


class GitFailureReason(str, Enum):
    """The reason of a failure of git, as far as it is known."""

    NO_REPOSITORY = "no-repository"
    OUTSIDE = "outside"
    LOCKED = "locked"
    CONFLICTS = "conflicts"
    IN_THE_WAY = "in-the-way"
    DETACHED = "detached"
    NOTHING = "nothing"
    UNKNOWN_REVISION = "unknown-revision"
    UNKNOWN_PATH = "unknown-path"
    EXISTS = "exists"
    UNMERGED_BRANCH = "unmerged-branch"
    IDENTITY = "identity"
    OWNER = "owner"
    PROTECTED = "protected"
    SHALLOW = "shallow"
    PARTIAL = "partial"
    LFS = "lfs"
    BORROWED = "borrowed"
    CREDENTIAL = "credential"
    BEHIND = "behind"
    MOVED = "moved"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    NO_REMOTE = "no-remote"
    TOO_LARGE = "too-large"
    CANCELLED = "cancelled"
    OTHER = "other"


@dataclass(frozen=True)
class GitFailure:
    """A failure of git, which is a result and not an error of the server."""

    reason: GitFailureReason
    text: str
    """A sentence that says what happened and what to do next."""
    exit_code: int
    stderr: str
    conflicts: tuple[str, ...] = ()

    @property
    def audit_text(self) -> str:
        """Return the text for the audit, without what git printed."""
        return f"{self.reason.value}: {self.text}"


class GitError(Exception):
    """An exception that carries a GitFailure to the git client, which returns it as the result."""

    def __init__(self, failure: GitFailure) -> None:
        super().__init__(f"{failure.text} {failure.stderr}".strip())
        self.failure = failure


def build_git_error(reason: GitFailureReason, text: str, exit_code: int = 1, stderr: str = "") -> GitError:
    return GitError(GitFailure(reason, text, exit_code, stderr))


@dataclass(frozen=True)
class ChangedFile:
    """A file that differs from the commit or the index."""

    path: str
    kind: str
    """added, modified, deleted, renamed, copied, type-changed; for a conflict both-modified, deleted-by-them ..."""
    old_path: str | None = None


@dataclass(frozen=True)
class GitStatus:
    """The result of `git status`."""

    branch: str | None
    """The current branch. None: the head is detached."""
    commit: str | None
    """The current commit. None: there is no commit yet."""
    upstream: str | None
    ahead: int
    behind: int
    staged: tuple[ChangedFile, ...]
    changed: tuple[ChangedFile, ...]
    untracked: tuple[str, ...]
    conflicts: tuple[ChangedFile, ...]
    left_out: int = 0
    """The number of paths that policy hides; one that the sandbox hides counts unchanged too: git sees it empty."""
    underway: str | None = None
    """The unfinished command: merge, rebase, cherry-pick, revert, bisect."""
    note: str | None = None


@dataclass(frozen=True)
class FileDiff:
    """The diff of one file."""

    path: str
    kind: str
    added: int | None
    """The number of added lines. None: the file is binary."""
    deleted: int | None
    """The number of deleted lines. None: the file is binary."""
    patch: str = ""
    """The patch, empty when the patches together are too long."""
    old_path: str | None = None


@dataclass(frozen=True)
class Diff:
    """The diffs of several files."""

    files: tuple[FileDiff, ...] = ()
    left_out: int = 0
    """The number of files that policy hides."""
    truncated: bool = False
    """True if some patches are missing or truncated."""


@dataclass(frozen=True)
class WorkingTreeDiff:
    """The result of `git diff` without a revision."""

    staged: Diff
    unstaged: Diff


@dataclass(frozen=True)
class Person:
    """The author or the committer of a commit."""

    name: str
    email: str


@dataclass(frozen=True)
class Commit:
    """A commit without its diff."""

    id: str
    parents: tuple[str, ...]
    author: Person
    authored_at: str
    committer: Person
    committed_at: str
    subject: str
    body: str


@dataclass(frozen=True)
class CommitLog:
    """The result of `git log`."""

    commits: tuple[Commit, ...]
    more: bool
    """True if there are older commits."""


@dataclass(frozen=True)
class CommitDetails:
    """The result of `git show COMMIT`."""

    commit: Commit
    diff: Diff
    """The diff against the first parent."""


@dataclass(frozen=True)
class FileAtCommit:
    """The result of `git show COMMIT:FILE`."""

    path: str
    commit: str
    size: int
    content: str | None
    """The text. None: the file is binary."""
    truncated: bool


@dataclass(frozen=True)
class FolderAtCommit:
    """The result of `git show COMMIT:FOLDER`."""

    path: str
    commit: str
    names: tuple[str, ...]
    """The names of the entries; those of folders end in `/`."""
    left_out: int


@dataclass(frozen=True)
class CommitResult:
    """The result of `git commit`."""

    id: str
    branch: str | None
    author: Person
    files: int
    note: str | None = None


@dataclass(frozen=True)
class AddResult:
    """The result of `git add`."""

    paths: tuple[str, ...]
    left_out: int
    note: str | None = None


@dataclass(frozen=True)
class RestoreResult:
    """The result of `git restore`."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class CheckoutResult:
    """The result of `git checkout`."""

    branch: str | None
    commit: str | None
    created: bool
    note: str | None = None


@dataclass(frozen=True)
class Branch:
    """A local or remote branch."""

    name: str
    commit: str
    current: bool
    remote: bool


@dataclass(frozen=True)
class BranchList:
    """The result of `git branch`."""

    current: str | None
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class RefChange:
    """A reference that a transfer moved."""

    name: str
    """The short name: `main`, `origin/main`."""
    before: str | None
    after: str | None


@dataclass(frozen=True)
class FetchResult:
    """The result of `git fetch`."""

    remote: str
    refs: tuple[RefChange, ...]


@dataclass(frozen=True)
class PullResult:
    """The result of `git pull`."""

    fetched: FetchResult
    branch: str
    before: str | None
    after: str
    kind: str
    """up-to-date, fast-forward or merge."""


@dataclass(frozen=True)
class PushResult:
    """The result of `git push`."""

    remote: str
    refs: tuple[RefChange, ...]


@dataclass(frozen=True)
class CloneResult:
    """The result of `git clone`."""

    remote: str
    path: str
    branch: str
    commit: str
    refs: tuple[RefChange, ...] = field(default=())


class GitResult(ChangeResult):
    """The result of a git operation: one of the classes above, or the failure."""

    answer: Any = None
    failure: GitFailure | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.failure is None else self.failure.exit_code or 1
