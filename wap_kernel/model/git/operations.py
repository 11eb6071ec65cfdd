"""The operations that git performs: reads, changes of the repository, transfers with a remote."""

from __future__ import annotations

from typing import Literal

from wap_kernel.model.operations import Effect, Operation, quote_word
from wap_kernel.model.paths import Access, PathAccess


class GitAction(Operation):
    """Run a git command in a repository of the workspace; the action decides which fields count."""

    action: str
    folder: str = "."
    """The folder of the repository."""
    files: tuple[str, ...] = ()
    message: str = ""
    author: str | None = None
    """The identity of a commit, as `Name <e-mail>`. None: see `git/identity.py`."""
    branch: str | None = None
    revision: str | None = None
    """A commit, a range of them, or `COMMIT:PATH`."""
    staged: bool = False
    force: bool = False
    delete: bool = False
    limit: int = 50
    skip: int = 0
    url: str | None = None
    """The URL of the remote. None: the remote that the repository names."""
    destination: str | None = None
    """The folder of a clone."""

    @property
    def line(self) -> str:
        """Return the action as a line for a shell, without files and message, so that command rules apply to it."""
        flags = [f"--{name}" for name in ("staged", "force", "delete") if getattr(self, name)]
        remote = ["origin"] if self.action == "push" and self.branch and not self.url else []
        named = (self.branch, self.revision)
        if self.action == "push" and self.branch and self.revision:
            named = (f"{self.revision}:{self.branch}", None)
        words = (self.url, *remote, *named, self.destination)
        return " ".join(map(quote_word, ("git", self.action, *flags, *(word for word in words if word))))

    def path_accesses(self) -> tuple[PathAccess, ...]:
        # These are the paths that the operation names; git asks about every other path when it acts.
        access = Access.WRITE if self.action == "restore" and not self.staged else Access.READ
        named = tuple(PathAccess(path, access, follow=False, folder=True) for path in self.files)
        if self.destination is None:
            return named
        return (*named, PathAccess(self.destination, Access.WRITE, follow=False, folder=True))

    def summary(self) -> dict[str, object]:
        files: dict[str, object] = {"files": list(self.files)} if self.files else {}
        return {"command": self.line, "cwd": self.folder, **files}


class GitRead(GitAction):
    """Read the repository."""

    kind = "gitRead"
    effect = Effect.READ
    action: Literal["status", "diff", "log", "show", "branch"]


class GitChange(GitAction):
    """Change the repository and its files."""

    kind = "gitChange"
    effect = Effect.WRITE
    action: Literal["add", "restore", "commit", "checkout", "branch"]


class GitTransfer(GitAction):
    """Transfer commits between the workspace and a remote."""

    kind = "gitTransfer"
    effect = Effect.EXECUTE
    action: Literal["fetch", "pull", "push", "clone"]
