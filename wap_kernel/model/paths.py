"""Parse, join and render workspace paths, and say how an operation uses one. Nothing here asks the file system.

`..` is preserved: whether it leaves the root depends on links, and only `Root` can resolve those.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from wap_kernel.model.errors import InvalidArgument, OutsideWorkspace
from wap_kernel.model.limits import MAX_NAME_BYTES, MAX_PATH_BYTES


def outside(path: str) -> OutsideWorkspace:
    """Return the error for a path that leaves the root; its text is the same whether or not the target exists."""
    return OutsideWorkspace(
        f"The path leaves the workspace: {path}", hint="Use a path relative to the workspace root.", path=path
    )


@lru_cache(maxsize=2048)  # a batch parses each path twice: to validate its messages and to build its operations
def parse_path(text: str, roots: tuple[str, ...] = ()) -> str:
    """Return `text` relative to the root; an absolute path is accepted below one of `roots` (names of the root)."""
    if not text:
        raise InvalidArgument("The path is empty.", hint='Use "." for the workspace root.')
    if "\0" in text:
        raise InvalidArgument("The path contains a NUL character.")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("The path is not valid Unicode (it contains a lone surrogate).") from None
    if len(encoded) > MAX_PATH_BYTES:
        raise InvalidArgument(f"The path is too long: {len(encoded)} bytes, at most {MAX_PATH_BYTES}.")
    if text.startswith("/"):
        relative = next((r for r in (relative_to(text, root) for root in roots) if r is not None), None)
        if relative is None:
            raise outside(text)
        text = relative
    parts = split_path(text)
    if len(encoded) > MAX_NAME_BYTES and any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise InvalidArgument(f"A name in the path is too long; at most {MAX_NAME_BYTES} bytes.")
    return "/".join(parts) or "."


def split_path(path: str) -> list[str]:
    """Return the components of `path`, without empty ones and `.`."""
    return [part for part in path.split("/") if part not in ("", ".")]


def resolve_lexically(path: str) -> str:
    """Return the real path of a `path` in which no component is a link; raise EXDEV if it leaves the root."""
    if not (path[:1] in "./" or "/." in path or "//" in path or path[-1] == "/"):
        return path  # only names, like nearly every path
    real: list[str] = []
    for part in split_path(path):
        if part != "..":
            real.append(part)
        elif real:
            real.pop()
        else:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return "/".join(real) or "."


def join_path(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def relative_to(path: str, folder: str) -> str | None:
    """Return the part of the absolute `path` below the absolute `folder` (`""` for the folder itself), or None."""
    path, folder = _normalize(path), _normalize(folder)
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _normalize(path: str) -> str:
    """Return the absolute `path` without empty components and `.`."""
    if "//" in path or "/." in path or path[-1:] == "/" or path[:1] != "/":
        return "/" + "/".join(split_path(path))
    return path


def render_path(path: str) -> str:
    """Return `path` for a result or a message, with bytes that are not UTF-8 escaped."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return path


class Access(Enum):
    """The use of a path: reading or writing."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class PathAccess:
    """A path that an operation reads or writes."""

    path: str
    access: Access
    follow: bool = True
    """True if a link in the last position is followed."""
    folder: bool = False
    """True if the path is or may be a folder that is not read as a file; the file primitives check when they act."""

    def with_path(self, path: str) -> PathAccess:
        """Return the same access to `path`, the resolved form of this path."""
        return replace(self, path=path)
