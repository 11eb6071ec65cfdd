"""Paths as callers write them, turned into paths relative to the root. Pure text; nothing is looked up.

`..` is kept: whether it leaves the root depends on links, and only `Root` may answer that.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache

from wap_kernel.model.errors import InvalidArgument, OutsideWorkspace
from wap_kernel.model.limits import MAX_NAME_BYTES, MAX_PATH_BYTES


def outside(path: str) -> OutsideWorkspace:
    """Return the error for a path that leaves the root; its text is the same whether or not the target exists."""
    return OutsideWorkspace(
        f"The path leaves the workspace: {path}", hint="Use a path relative to the workspace root.", path=path
    )


@lru_cache(maxsize=2048)  # a batch asks twice for each path: what is wrong with its messages, and what it means
def parse(text: str, roots: tuple[str, ...] = ()) -> str:
    """`text` as a path relative to the root; absolute paths are accepted below one of `roots` (names of the root)."""
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
        relative = next((r for r in (below(text, root) for root in roots) if r is not None), None)
        if relative is None:
            raise outside(text)
        text = relative
    parts = split(text)
    if len(encoded) > MAX_NAME_BYTES and any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise InvalidArgument(f"A name in the path is too long; at most {MAX_NAME_BYTES} bytes.")
    return "/".join(parts) or "."


def split(path: str) -> list[str]:
    """The components, without empty ones and `.`."""
    return [part for part in path.split("/") if part not in ("", ".")]


def lexical(path: str) -> str:
    """The real path of a path in which no component is a link; EXDEV if it leaves the root."""
    if not (path[:1] in "./" or "/." in path or "//" in path or path[-1] == "/"):
        return path  # nothing but names, as nearly every path
    real: list[str] = []
    for part in split(path):
        if part != "..":
            real.append(part)
        elif real:
            real.pop()
        else:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return "/".join(real) or "."


def join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def below(path: str, folder: str) -> str | None:
    """The part of the absolute `path` below the absolute `folder` (`""` for the folder itself), or None."""
    path, folder = _tidy(path), _tidy(folder)
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _tidy(path: str) -> str:
    """An absolute path without empty components and `.`."""
    if "//" in path or "/." in path or path[-1:] == "/" or path[:1] != "/":
        return "/" + "/".join(split(path))
    return path


def display(path: str) -> str:
    """A path for an answer: names that are not UTF-8 are shown with their bytes escaped."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return path
