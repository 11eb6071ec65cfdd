"""The vocabulary: one model per operation, shared by every dialect. What they answer stands in `results.py`.

Paths are POSIX paths relative to the root, already parsed by the dialect (see `files/paths.py`); `"."` is the root.
Dialects translate their own field names to these.
Nothing here touches a disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Literal

from pydantic import Field

from wap_kernel.model.base import Model
from wap_kernel.model.edits import Edit
from wap_kernel.model.path_access import Access, PathAccess


class Effect(str, Enum):
    """What an operation does to the world; also the action that Jupyter's authorizer is asked about."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Operation(Model):
    """Something an agent wants done."""

    kind: ClassVar[str]
    effect: ClassVar[Effect]
    within: str = "."
    """A folder that it stays in, and whose own policy file counts as well."""
    confirmed: bool = False
    """Whoever asks says that somebody agreed. That satisfies what the workspace's own policy files want to have
    confirmed, and nothing else."""

    @property
    def content_size(self) -> int:
        """The bytes that it brings to be written."""
        return 0

    def path_accesses(self) -> tuple[PathAccess, ...]:
        """Return the paths that the operation names, with what it does to them."""
        return ()

    def summary(self) -> dict[str, object]:
        """What the audit may say of it: paths and commands, never contents."""
        return {}


class Message(Operation):
    """Words to whoever watches; nothing is done."""

    kind = "message"
    effect = Effect.READ
    content: str


class _OnPath(Operation):
    path: str

    def path_accesses(self) -> tuple[PathAccess, ...]:
        access = Access.READ if self.effect is Effect.READ else Access.WRITE
        return (PathAccess(self.path, access),)

    def summary(self) -> dict[str, object]:
        return {"path": self.path}


class ListFiles(_OnPath):
    kind = "listFiles"
    effect = Effect.READ
    recursive: bool = False
    max_depth: int | None = None
    exclude: tuple[str, ...] | None = None
    """None means the default exclusions for a recursive listing and nothing otherwise."""
    include: tuple[str, ...] | None = None
    """Selecting globs, relative to `path`. With them only files and links are listed; None lists everything."""
    limit: int | None = None
    """Of entries in the answer, where the dialect has a bound of its own."""
    start_entry: int = 1
    """The first one in the answer; those before it are counted only."""
    newest_first: bool = False
    """By time of modification instead of by path; a limit keeps the newest."""
    metadata: bool = False

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.READ, folder=True),)

    def summary(self) -> dict[str, object]:
        return {**super().summary(), **_selecting(self.include)}


Encoding = Literal["utf-8", "base64"]


class ReadFile(_OnPath):
    kind = "readFile"
    effect = Effect.READ
    start_line: int | None = None
    end_line: int | None = None
    encoding: Encoding | Literal["auto"] = "utf-8"
    """`auto`: UTF-8 if that is what it is, else base64."""
    max_size: int | None = None
    """Of the answer, where the dialect has a bound of its own."""


class ViewFile(ReadFile):
    """A file for somebody who looks at it: one that is binary is described, not refused."""

    kind = "viewFile"
    max_line: int | None = None
    """Characters of a line that are shown; None: all."""


class ReadNotebook(ReadFile):
    """A notebook cell by cell."""

    kind = "readNotebook"
    cells: tuple[str, ...] | None = None
    """The ids of those that are wanted; None: all."""
    outputs: bool = True


class WriteFile(_OnPath):
    kind = "writeFile"
    effect = Effect.WRITE
    content: bytes
    mode: Literal["create", "overwrite", "append"] = "overwrite"
    create_directories: bool = False
    expected_hash: str | None = None

    @property
    def content_size(self) -> int:
        return len(self.content)


class ModifyFile(_OnPath):
    kind = "modifyFile"
    effect = Effect.WRITE
    edits: tuple[Edit, ...]
    expected_hash: str | None = None

    @property
    def content_size(self) -> int:
        texts = (getattr(edit, name, "") for edit in self.edits for name in ("new_content", "replacement", "source"))
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class SearchFiles(Operation):
    kind = "searchFiles"
    effect = Effect.READ
    paths: tuple[str, ...]
    query: str
    regex: bool = False
    case_sensitive: bool = True
    recursive: bool = True
    exclude: tuple[str, ...] | None = None
    include: tuple[str, ...] | None = None
    """Selecting globs, relative to each folder in `paths`, and to the folder of each file there."""
    limit: int | None = None
    """Of matches in the answer, where the dialect has a bound of its own."""
    context_lines: int = 2

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return tuple(PathAccess(path, Access.READ, folder=True) for path in self.paths)

    def summary(self) -> dict[str, object]:
        return {"paths": list(self.paths), "query": self.query, **_selecting(self.include)}


def _selecting(include: tuple[str, ...] | None) -> dict[str, object]:
    return {} if include is None else {"include": list(include)}


class RunCommand(Operation):
    kind = "runCommand"
    effect = Effect.EXECUTE
    command: str
    """A line for the shell; a program where there are `args`."""
    args: tuple[str, ...] | None = None
    """For the program, which is then started as it is, without a shell."""
    cwd: str = "."
    by_alias: bool = False
    """Where a sandbox has the workspace at `/workspace` too, `pwd` says that."""
    timeout_ms: float | None = None
    environment: dict[str, str] = Field(default_factory=dict)

    @property
    def line(self) -> str:
        """As a shell would have to be told it."""
        return self.command if self.args is None else " ".join(map(_quoted, (self.command, *self.args)))

    @property
    def argv(self) -> str | tuple[str, ...]:
        """As a provider is told it."""
        return self.command if self.args is None else (self.command, *self.args)

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.cwd, Access.READ, folder=True),)

    def summary(self) -> dict[str, object]:
        return {"command": self.line, "cwd": self.cwd, "environment": sorted(self.environment)}


_PLAIN_WORD = re.compile(r"[\w@%+:,./-]+", re.ASCII)


def _quoted(word: str) -> str:
    """Unlike `shlex.quote` also where there is a `=`: bare, the first word would be an assignment."""
    return word if _PLAIN_WORD.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'"


class DeleteFile(_OnPath):
    kind = "deleteFile"
    effect = Effect.WRITE
    recursive: bool = False
    expected_hash: str | None = None

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.WRITE, follow=False),)


class _FromTo(Operation):
    effect = Effect.WRITE
    source: str
    destination: str
    overwrite: bool = False
    create_directories: bool = False
    expected_hash: str | None = None

    def summary(self) -> dict[str, object]:
        return {"source": self.source, "destination": self.destination}


class MoveFile(_FromTo):
    kind = "moveFile"

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (
            PathAccess(self.source, Access.WRITE, follow=False),
            PathAccess(self.destination, Access.WRITE, follow=False),
        )


class CopyFile(_FromTo):
    kind = "copyFile"

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.source, Access.READ), PathAccess(self.destination, Access.WRITE))


class CreateDirectory(_OnPath):
    kind = "createDirectory"
    effect = Effect.WRITE

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.WRITE, folder=True),)


class RevertRun(Operation):
    """Undo what a run changed."""

    kind = "revert"
    effect = Effect.WRITE
    run: str
    force: bool = False

    def summary(self) -> dict[str, object]:
        return {"run": self.run, "force": self.force}


class DecideApproval(Operation):
    """A person's answer to what an agent wants to do."""

    kind = "decide"
    effect = Effect.WRITE
    run: str
    approval: str
    decision: str
    grant: str | None = None
    """The id of what was allowed for good,"""
    remember: str | None = None
    """and what that is: the grant may be revoked when somebody asks."""

    def summary(self) -> dict[str, object]:
        said: dict[str, object] = {"run": self.run, "approval": self.approval, "decision": self.decision}
        return said if self.grant is None else {**said, "grant": self.grant, "remember": self.remember}


class Administer(Operation):
    """Something that a person does about what agents may do: a token is minted, a grant revoked."""

    kind = "administer"
    effect = Effect.WRITE
    action: str
    subject: str

    def summary(self) -> dict[str, object]:
        return {"action": self.action, "subject": self.subject}


class GitAction(Operation):
    """Something that git is to do in a repository of the workspace. Which fields count depends on the action."""

    action: str
    folder: str = "."
    """In which the repository lies."""
    files: tuple[str, ...] = ()
    message: str = ""
    branch: str | None = None
    revision: str | None = None
    """A commit, a range of them, or `COMMIT:PATH`."""
    staged: bool = False
    force: bool = False
    delete: bool = False
    limit: int = 50
    skip: int = 0
    url: str | None = None
    """Of the remote; None: what the repository calls its remote."""
    destination: str | None = None
    """Of a clone."""

    @property
    def line(self) -> str:
        """As a shell would have to be told it, without files and message: the same rules speak for both."""
        flags = [f"--{name}" for name in ("staged", "force", "delete") if getattr(self, name)]
        remote = ["origin"] if self.action == "push" and self.branch and not self.url else []
        named = (self.branch, self.revision)
        if self.action == "push" and self.branch and self.revision:
            named = (f"{self.revision}:{self.branch}", None)
        words = (self.url, *remote, *named, self.destination)
        return " ".join(map(_quoted, ("git", self.action, *flags, *(word for word in words if word))))

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
    kind = "gitRead"
    effect = Effect.READ
    action: Literal["status", "diff", "log", "show", "branch"]


class GitChange(GitAction):
    """Of the workspace's own repository and its files."""

    kind = "gitChange"
    effect = Effect.WRITE
    action: Literal["add", "restore", "commit", "checkout", "branch"]


class GitTransfer(GitAction):
    """Between the workspace and a repository elsewhere."""

    kind = "gitTransfer"
    effect = Effect.EXECUTE
    action: Literal["fetch", "pull", "push", "clone"]


class DescribeWorkspace(Operation):
    kind = "describeWorkspace"
    effect = Effect.READ


KINDS: Mapping[str, type[Operation]] = MappingProxyType(
    {
        kind.kind: kind
        for kind in (
            *(Message, ListFiles, ReadFile, WriteFile, ModifyFile, SearchFiles, RunCommand),
            *(DeleteFile, MoveFile, CopyFile, CreateDirectory, RevertRun, DescribeWorkspace),
            *(ViewFile, ReadNotebook, GitRead, GitChange, GitTransfer),
        )
    }
)
