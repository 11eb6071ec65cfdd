"""Files of the workspace as `file:` URIs and back. Pure text; nothing is looked up."""

from __future__ import annotations

import mimetypes
from urllib.parse import quote, unquote_to_bytes, urlsplit

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument

_HOSTS = ("", "localhost")


def uri_of(root: str, path: str) -> str:
    """Of the file at a path relative to the root."""
    return f"file://{quote(root.rstrip('/') + '/' + path)}"


def template(root: str) -> str:
    return f"file://{quote(root.rstrip('/'))}/{{+path}}"


def path_of(uri: str, names_of_root: tuple[str, ...]) -> str:
    """Relative to the root. Raises InvalidArgument for what names no file, PermissionDenied for one outside."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _unknown() from None
    if parts.scheme.lower() != "file" or parts.netloc.lower() not in _HOSTS or parts.query or parts.fragment:
        raise _unknown()
    try:
        text = unquote_to_bytes(parts.path).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgument("uri: It is not UTF-8.") from None
    if not text.startswith("/"):
        raise _unknown()
    return paths.parse_path(text, names_of_root)


def media_type(path: str) -> str | None:
    if path.endswith(".ipynb"):
        return "application/x-ipynb+json"
    return mimetypes.guess_type(path, strict=False)[0]


def _unknown() -> InvalidArgument:
    return InvalidArgument("uri: It names no file here.", hint="Files are file:///path/of/the/workspace/name.")
