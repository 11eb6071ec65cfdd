"""The exception family of the package.

An error says what happened (`message`) and what to do next (`hint`), and carries data for programs (`details`).
It is raised deep inside and translated once, at the edge: to HTTP, to JSON-RPC, to an event, to a notebook card.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

from wap_kernel.model.hints import LIST_FOLDER


class Code(str, Enum):
    """Every code a caller can receive, in any dialect."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    FILE_EXISTS = "FILE_EXISTS"
    CONFLICT = "CONFLICT"
    SIZE_LIMIT_EXCEEDED = "SIZE_LIMIT_EXCEEDED"
    BINARY_FILE = "BINARY_FILE"
    EDIT_NOT_FOUND = "EDIT_NOT_FOUND"
    EDIT_AMBIGUOUS = "EDIT_AMBIGUOUS"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    TIMEOUT = "TIMEOUT"
    RATE_LIMITED = "RATE_LIMITED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    NO_SPACE = "NO_SPACE"


_QUOTED = re.compile(r"[:\"'`]")
"""The characters at which a message begins to quote."""


class WapError(Exception):
    """Base of the family; raise one of the subclasses."""

    code: ClassVar[Code] = Code.INTERNAL_ERROR

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> WapError:
        """Return the error that `data` describes as `{"error", "code", "details"?}`."""
        kinds = {kind.code: kind for kind in WapError.__subclasses__()}
        kind = kinds.get(Code(data["code"]), InternalError)
        return kind(str(data["error"]), **data.get("details", {}))

    def to_dict(self) -> dict[str, Any]:
        """Return the error in the form of REST, which `from_dict` parses."""
        return {"error": self.text, "code": self.code.value, **({"details": self.details} if self.details else {})}

    @property
    def audit_text(self) -> str:
        """Return the text for the audit: paths, commands and rules, but no content that was written or read."""
        return self.message

    @property
    def text(self) -> str:
        """Return message and hint as two sentences, for dialects that have a single text field."""
        if not self.hint:
            return self.message
        return f"{self.message}{'' if self.message.endswith(('.', '!', '?')) else '.'} {self.hint}"


def _remove_quotes(message: str) -> str:
    """Return `message` up to its first colon or quote, since what follows may be anything that the caller sent."""
    start = _QUOTED.split(message, maxsplit=1)[0].rstrip(" .")
    return f"{start}." if " " in start else "The request is not valid."


class InvalidArgument(WapError):
    """The request itself is wrong: a field, a pattern, a line number, the kind of file.

    Its message may quote the request after a colon or in quotes, and nowhere else.
    """

    code = Code.INVALID_ARGUMENT

    @property
    def audit_text(self) -> str:
        # The message begins with the names of fields, which are the caller's own.
        return "The request is not valid." if "problems" in self.details else _remove_quotes(self.message)


class Unauthenticated(WapError):
    """The server does not know the caller."""

    code = Code.UNAUTHENTICATED


class PermissionDenied(WapError):
    """Policy, protection or containment refuses the operation."""

    code = Code.PERMISSION_DENIED


class OutsideWorkspace(PermissionDenied):
    """A path leaves the workspace, or the folder that an operation stays in."""


class PathClosed(PermissionDenied):
    """Policy, protection or the operating system closes a path."""


class ApprovalRequired(WapError):
    """A person must approve the operation before it is performed."""

    code = Code.APPROVAL_REQUIRED


class FileNotFound(WapError):
    """The named file or folder does not exist."""

    code = Code.FILE_NOT_FOUND


class NotFound(WapError):
    """The named tool, run or token does not exist."""

    code = Code.NOT_FOUND


class MethodNotAllowed(WapError):
    """The route exists, but not for this HTTP method."""

    code = Code.METHOD_NOT_ALLOWED


class AlreadyExists(WapError):
    """The path of a new file or folder is taken."""

    code = Code.FILE_EXISTS


class Conflict(WapError):
    """The file differs from what the caller read (`expectedHash`), or is in use."""

    code = Code.CONFLICT


class TooLarge(WapError):
    """A file, a content or a result exceeds its limit."""

    code = Code.SIZE_LIMIT_EXCEEDED


class BinaryFile(WapError):
    """The caller wants text of a file that holds NUL bytes."""

    code = Code.BINARY_FILE


class EditNotFound(WapError):
    """The text or pattern to replace does not occur. The message quotes the request as InvalidArgument does."""

    code = Code.EDIT_NOT_FOUND

    @property
    def audit_text(self) -> str:
        return _remove_quotes(self.message)


class EditAmbiguous(WapError):
    """The text to replace occurs more than once, and the edit does not choose one."""

    code = Code.EDIT_AMBIGUOUS


class ExecutionFailed(WapError):
    """A command could not be started (one that ran and failed is a result, not an error)."""

    code = Code.EXECUTION_FAILED


class TimedOut(WapError):
    """A command, a search or a pattern took longer than it may."""

    code = Code.TIMEOUT


class RateLimited(WapError):
    """An agent token has used up one of its limits for now; `details.retryAfterMs` says until when."""

    code = Code.RATE_LIMITED


class InternalError(WapError):
    """A bug. The text says nothing of the host."""

    code = Code.INTERNAL_ERROR


class ProviderUnavailable(WapError):
    """The provider cannot be reached or cannot start."""

    code = Code.PROVIDER_UNAVAILABLE


class NoSpace(WapError):
    """The disk or the quota is full; no file was changed."""

    code = Code.NO_SPACE


PARTIAL_EFFECT_HINT = "It may have been done in part: look before you call again."
"""The hint of an operation that was interrupted."""
NO_SPACE_ERRNOS = {errno.ENOSPC, errno.EDQUOT}


def translate_os_error(error: OSError, path: str) -> WapError:
    """Translate an OSError about `path`, which is written as the caller wrote it, never as a path of the host."""
    number = error.errno
    if number == errno.ENOENT:
        return FileNotFound(f"No such file or folder: {path}", path=path)
    if number == errno.ENOTDIR:
        return FileNotFound(f"Not a folder on the way to: {path}", path=path)
    if number == errno.EEXIST:
        return AlreadyExists(f"Already exists: {path}", path=path)
    if number == errno.EISDIR:
        return InvalidArgument(f"Is a folder: {path}", hint=LIST_FOLDER, path=path)
    if number == errno.ENOTEMPTY:
        return AlreadyExists(f"The folder is not empty: {path}", path=path)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PathClosed(f"The operating system refuses access to: {path}", path=path)
    if number in NO_SPACE_ERRNOS:
        return NoSpace(
            f"No space left while writing: {path}",
            hint="Free some space and try again; the file is as it was.",
            path=path,
        )
    if number == errno.ENAMETOOLONG:
        return InvalidArgument("The path or one of its names is too long.", hint="A name has at most 255 bytes.")
    if number == errno.ELOOP:
        return InvalidArgument(f"Too many symbolic links: {path}", hint="Name what it should lead to.", path=path)
    if number in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
        return InvalidArgument(f"Not a regular file: {path}", hint="Pipes, devices and sockets are never opened.")
    if number == errno.EXDEV:
        return InvalidArgument(
            f"Cannot move to another file system: {path}", hint="Copy it and delete the original.", path=path
        )
    if number in (errno.EBUSY, errno.ETXTBSY):
        return Conflict(f"The system is using: {path}", hint="Try again later, or leave it alone.", path=path)
    if number == errno.EFBIG:
        return TooLarge(f"The file system does not hold files of this size: {path}", path=path)
    if number in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN):
        return ProviderUnavailable(f"The file system does not answer for: {path}", hint="Try again later.", path=path)
    if number in (errno.EMFILE, errno.ENFILE):
        return ProviderUnavailable("Too many open files on the server.", hint="Try again in a moment.")
    return InternalError(f"The operating system reports an error ({errno.errorcode.get(number or 0, number)}).")
