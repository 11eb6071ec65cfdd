"""One model per operation, shared by every dialect; `results.py` has their results.

Paths are POSIX paths relative to the root, already parsed by the dialect (see `paths.py`); `"."` is the root.
Dialects translate their own field names to these.
Pure data: no function here asks the file system.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import ClassVar, Literal

from pydantic import Field

from wap_kernel.model.base import Model
from wap_kernel.model.edits import Edit
from wap_kernel.model.paths import Access, PathAccess


class Effect(str, Enum):
    """The effect of an operation, which is also the action that Jupyter's authorizer decides about."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Operation(Model):
    """The base of all operations."""

    kind: ClassVar[str]
    effect: ClassVar[Effect]
    within: str = "."
    """The folder that the operation stays in, and whose own policy file counts as well."""
    confirmed: bool = False
    """True if the caller claims that a person confirmed the operation.

    The claim satisfies the confirmations that the workspace's own policy files require, and nothing else.
    """

    @property
    def content_size(self) -> int:
        """Return the number of bytes of new content."""
        return 0

    def path_accesses(self) -> tuple[PathAccess, ...]:
        """Return the paths that the operation names, with what it does to them."""
        return ()

    def summary(self) -> dict[str, object]:
        """Return the fields that the audit records: paths and commands, never contents."""
        return {}


class Message(Operation):
    """Send a text to the people who watch the run; nothing is done."""

    kind = "message"
    effect = Effect.READ
    content: str


class _PathOperation(Operation):
    path: str

    def path_accesses(self) -> tuple[PathAccess, ...]:
        access = Access.READ if self.effect is Effect.READ else Access.WRITE
        return (PathAccess(self.path, access),)

    def summary(self) -> dict[str, object]:
        return {"path": self.path}


class ListFiles(_PathOperation):
    """List a folder."""

    kind = "listFiles"
    effect = Effect.READ
    recursive: bool = False
    max_depth: int | None = None
    exclude: tuple[str, ...] | None = None
    """Exclude globs. None: the default exclusions for a recursive listing, none otherwise."""
    include: tuple[str, ...] | None = None
    """Include globs, relative to `path`. With them only files and links are listed. None: all entries."""
    limit: int | None = None
    """The number of entries in the result, where the dialect has a limit of its own."""
    start_entry: int = 1
    """The first entry in the result; those before it are only counted."""
    newest_first: bool = False
    """True if entries are sorted by time of modification instead of by path."""
    metadata: bool = False
    cursor: str | None = None
    """The `next_cursor` of the page before. None: the first page."""

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.READ, folder=True),)

    def summary(self) -> dict[str, object]:
        return {**super().summary(), **_summarize_include(self.include)}


Encoding = Literal["utf-8", "base64"]


class ReadFile(_PathOperation):
    """Read a file, whole or by a range of lines."""

    kind = "readFile"
    effect = Effect.READ
    start_line: int | None = None
    end_line: int | None = None
    encoding: Encoding | Literal["auto"] = "utf-8"
    """The encoding of the result; `auto` is UTF-8 where the file is valid UTF-8, else base64."""
    max_size: int | None = None
    """Bytes of the result, where the dialect has a limit of its own."""
    max_text: int | None = None
    """Bytes after which the result is truncated, at the end of a line. None: a larger file is an error."""


class ViewFile(ReadFile):
    """Read a file for display: a binary file is described, not refused."""

    kind = "viewFile"
    max_line: int | None = None
    """Characters of a line, after which it is truncated. None: no limit."""


class ReadNotebook(ReadFile):
    """Read a notebook cell by cell."""

    kind = "readNotebook"
    cells: tuple[str, ...] | None = None
    """The ids of the cells in the result. None: all cells."""
    outputs: bool = True


class WriteFile(_PathOperation):
    """Create, overwrite or append to a file."""

    kind = "writeFile"
    effect = Effect.WRITE
    content: bytes
    mode: Literal["create", "overwrite", "append"] = "overwrite"
    create_directories: bool = False
    atomic: bool = True
    """False if an existing file is written to in place and keeps its inode; a crash may leave it half written."""
    expected_hash: str | None = None

    @property
    def content_size(self) -> int:
        return len(self.content)


class ModifyFile(_PathOperation):
    """Apply edits to a file, all or none."""

    kind = "modifyFile"
    effect = Effect.WRITE
    edits: tuple[Edit, ...]
    expected_hash: str | None = None

    @property
    def content_size(self) -> int:
        texts = (getattr(edit, name, "") for edit in self.edits for name in ("new_content", "replacement", "source"))
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class SearchFiles(Operation):
    """Search files for a text or a regular expression."""

    kind = "searchFiles"
    effect = Effect.READ
    paths: tuple[str, ...]
    query: str
    regex: bool = False
    case_sensitive: bool = True
    recursive: bool = True
    exclude: tuple[str, ...] | None = None
    include: tuple[str, ...] | None = None
    """Include globs, relative to each folder in `paths`, and to the folder of each file there."""
    limit: int | None = None
    """The number of matches in the result, where the dialect has a limit of its own."""
    context_lines: int = 2
    cursor: str | None = None
    """The `next_cursor` of the page before. None: the first page."""

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return tuple(PathAccess(path, Access.READ, folder=True) for path in self.paths)

    def summary(self) -> dict[str, object]:
        return {"paths": list(self.paths), "query": self.query, **_summarize_include(self.include)}


def _summarize_include(include: tuple[str, ...] | None) -> dict[str, object]:
    return {} if include is None else {"include": list(include)}


Isolation = Literal["layer", "shared"]
"""The target of what a command changes: a Layer, whose ChangeSet is judged and applied, or the workspace."""


class RunCommand(Operation):
    """Run a command."""

    kind = "runCommand"
    effect = Effect.EXECUTE
    command: str
    """A line for the shell, or a program where there are `args`."""
    args: tuple[str, ...] | None = None
    """The arguments of the program, which then starts without a shell."""
    cwd: str = "."
    by_alias: bool = False
    """True if the command starts below `/workspace`, in a sandbox that has the workspace there too."""
    timeout_ms: float | None = None
    is_timeout_default: bool = False
    """True where the caller named no timeout: then a shorter one, which policy sets, needs no note."""
    environment: dict[str, str] = Field(default_factory=dict)
    isolation: Isolation = "layer"
    """`shared`: the command writes into the workspace directly, for servers and watchers; undo does not cover it."""

    @property
    def line(self) -> str:
        """Return the command as a line for a shell."""
        return self.command if self.args is None else " ".join(map(quote_word, (self.command, *self.args)))

    @property
    def argv(self) -> str | tuple[str, ...]:
        """Return the command in the form that a provider takes."""
        return self.command if self.args is None else (self.command, *self.args)

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.cwd, Access.READ, folder=True),)

    def summary(self) -> dict[str, object]:
        summary: dict[str, object] = {"command": self.line, "cwd": self.cwd, "environment": sorted(self.environment)}
        return summary if self.isolation == "layer" else {**summary, "isolation": self.isolation}


_SAFE_WORD = re.compile(r"[\w@%+:,./-]+", re.ASCII)


def quote_word(word: str) -> str:
    """Quote `word` for a shell, unlike `shlex.quote` also where it has a `=`, which would begin an assignment."""
    return word if _SAFE_WORD.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'"


class DeleteFile(_PathOperation):
    """Delete a file or a folder."""

    kind = "deleteFile"
    effect = Effect.WRITE
    recursive: bool = False
    expected_hash: str | None = None

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.WRITE, follow=False),)


class _TransferOperation(Operation):
    effect = Effect.WRITE
    source: str
    destination: str
    overwrite: bool = False
    create_directories: bool = False
    expected_hash: str | None = None

    def summary(self) -> dict[str, object]:
        return {"source": self.source, "destination": self.destination}


class MoveFile(_TransferOperation):
    """Move a file or a folder."""

    kind = "moveFile"

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (
            PathAccess(self.source, Access.WRITE, follow=False),
            PathAccess(self.destination, Access.WRITE, follow=False),
        )


class CopyFile(_TransferOperation):
    """Copy a file."""

    kind = "copyFile"

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.source, Access.READ), PathAccess(self.destination, Access.WRITE))


class CreateDirectory(_PathOperation):
    """Create a folder with its parents."""

    kind = "createDirectory"
    effect = Effect.WRITE

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return (PathAccess(self.path, Access.WRITE, folder=True),)


class RevertRun(Operation):
    """Revert the changes of a run."""

    kind = "revert"
    effect = Effect.WRITE
    run: str
    force: bool = False

    def summary(self) -> dict[str, object]:
        return {"run": self.run, "force": self.force}


class ApplyChanges(Operation):
    """Apply the changes that a run could not apply or was cancelled before it did: the person takes the command's."""

    kind = "apply"
    effect = Effect.WRITE
    run: str
    paths: tuple[str, ...] | None = None
    """The paths to apply, with all below. None: everything."""

    def path_accesses(self) -> tuple[PathAccess, ...]:
        return tuple(PathAccess(path, Access.WRITE, follow=False) for path in self.paths or ())

    def summary(self) -> dict[str, object]:
        return {"run": self.run, "paths": None if self.paths is None else list(self.paths)}


class DecideApproval(Operation):
    """Record a person's decision about an approval."""

    kind = "decide"
    effect = Effect.WRITE
    run: str
    approval: str
    decision: str
    grant: str | None = None
    """The id of the grant that the decision stored."""
    remember: str | None = None
    """The text of that grant, recorded because the grant may be revoked later."""

    def summary(self) -> dict[str, object]:
        decision: dict[str, object] = {"run": self.run, "approval": self.approval, "decision": self.decision}
        return decision if self.grant is None else {**decision, "grant": self.grant, "remember": self.remember}


class Administer(Operation):
    """Record a person's administrative action: minting a token, revoking a grant."""

    kind = "administer"
    effect = Effect.WRITE
    action: str
    subject: str

    def summary(self) -> dict[str, object]:
        return {"action": self.action, "subject": self.subject}


class DescribeWorkspace(Operation):
    """Describe the workspace and its limits."""

    kind = "describeWorkspace"
    effect = Effect.READ
