"""What git operations answer. Paths are relative to the workspace, as all tools say them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from wap_kernel.model.results import Result


class GitFailureReason(str, Enum):
    """Why git failed, as far as it is known."""

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
    """Git said no. It is an answer, not an error of the server."""

    reason: GitFailureReason
    text: str
    """What happened and what to do next."""
    exit_code: int
    stderr: str
    conflicts: tuple[str, ...] = ()

    @property
    def audit_text(self) -> str:
        """Return the text for the audit, without what git printed."""
        return f"{self.reason.value}: {self.text}"


class GitError(Exception):
    """Carries a Failure to the rim, where it becomes the answer."""

    def __init__(self, failure: GitFailure) -> None:
        super().__init__(f"{failure.text} {failure.stderr}".strip())
        self.failure = failure


def build_git_error(reason: GitFailureReason, text: str, exit_code: int = 1, stderr: str = "") -> GitError:
    return GitError(GitFailure(reason, text, exit_code, stderr))


@dataclass(frozen=True)
class ChangedFile:
    path: str
    kind: str
    """added, modified, deleted, renamed, copied, type-changed; of a conflict: both-modified, deleted-by-them ..."""
    old_path: str | None = None


@dataclass(frozen=True)
class GitStatus:
    branch: str | None
    """None: the head is detached."""
    commit: str | None
    """None: there is no commit yet."""
    upstream: str | None
    ahead: int
    behind: int
    staged: tuple[ChangedFile, ...]
    changed: tuple[ChangedFile, ...]
    untracked: tuple[str, ...]
    conflicts: tuple[ChangedFile, ...]
    left_out: int = 0
    """Paths that policy does not show. One that the sandbox hides counts, changed or not: there git sees it empty."""
    underway: str | None = None
    """merge, rebase, cherry-pick, revert, bisect."""
    note: str | None = None


@dataclass(frozen=True)
class FileDiff:
    path: str
    kind: str
    added: int | None
    """Lines; None for a binary file."""
    deleted: int | None
    patch: str = ""
    """Empty when the patches together are too long."""
    old_path: str | None = None


@dataclass(frozen=True)
class Diff:
    files: tuple[FileDiff, ...] = ()
    left_out: int = 0
    """Files that policy does not show."""
    truncated: bool = False
    """Some files come without their patch, or with a part of it."""


@dataclass(frozen=True)
class WorkingTreeDiff:
    staged: Diff
    unstaged: Diff


@dataclass(frozen=True)
class Person:
    name: str
    email: str


@dataclass(frozen=True)
class Commit:
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
    commits: tuple[Commit, ...]
    more: bool
    """There are older ones."""


@dataclass(frozen=True)
class CommitDetails:
    commit: Commit
    diff: Diff
    """Against the first parent."""


@dataclass(frozen=True)
class FileAtCommit:
    path: str
    commit: str
    size: int
    content: str | None
    """None: it is binary."""
    truncated: bool


@dataclass(frozen=True)
class FolderAtCommit:
    path: str
    commit: str
    names: tuple[str, ...]
    """A folder's ends in `/`."""
    left_out: int


@dataclass(frozen=True)
class CommitResult:
    id: str
    branch: str | None
    author: Person
    files: int
    note: str | None = None


@dataclass(frozen=True)
class AddResult:
    paths: tuple[str, ...]
    left_out: int
    note: str | None = None


@dataclass(frozen=True)
class RestoreResult:
    paths: tuple[str, ...]


@dataclass(frozen=True)
class CheckoutResult:
    branch: str | None
    commit: str | None
    created: bool
    note: str | None = None


@dataclass(frozen=True)
class Branch:
    name: str
    commit: str
    current: bool
    remote: bool


@dataclass(frozen=True)
class BranchList:
    current: str | None
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class RefChange:
    name: str
    """As people say it: `main`, `origin/main`."""
    before: str | None
    after: str | None


@dataclass(frozen=True)
class FetchResult:
    remote: str
    refs: tuple[RefChange, ...]


@dataclass(frozen=True)
class PullResult:
    fetched: FetchResult
    branch: str
    before: str | None
    after: str
    kind: str
    """up-to-date, fast-forward or merge."""


@dataclass(frozen=True)
class PushResult:
    remote: str
    refs: tuple[RefChange, ...]


@dataclass(frozen=True)
class CloneResult:
    remote: str
    path: str
    branch: str
    commit: str
    refs: tuple[RefChange, ...] = field(default=())


class GitResult(Result):
    """The answer of a git operation, one of the classes above, or the reason why git failed."""

    answer: Any = None
    failure: GitFailure | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.failure is None else self.failure.exit_code or 1
