"""Convert paths of the workspace to `file:` URIs and back. Pure text; no file is read."""

from __future__ import annotations

import mimetypes
from urllib.parse import quote, unquote_to_bytes, urlsplit

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument

_HOSTS = ("", "localhost")


def build_uri(root: str, path: str) -> str:
    """Build the URI of the file at a path relative to the root."""
    return f"file://{quote(root.rstrip('/') + '/' + path)}"


def build_template(root: str) -> str:
    return f"file://{quote(root.rstrip('/'))}/{{+path}}"


def parse_uri(uri: str, names_of_root: tuple[str, ...]) -> str:
    """Parse a URI; return the path relative to the root.

    Raises InvalidArgument for a URI that names no file, PermissionDenied for one outside the workspace.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _unknown_uri() from None
    if parts.scheme.lower() != "file" or parts.netloc.lower() not in _HOSTS or parts.query or parts.fragment:
        raise _unknown_uri()
    try:
        text = unquote_to_bytes(parts.path).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgument("uri: The path is not UTF-8.") from None
    if not text.startswith("/"):
        raise _unknown_uri()
    return paths.parse_path(text, names_of_root)


def guess_media_type(path: str) -> str | None:
    if path.endswith(".ipynb"):
        return "application/x-ipynb+json"
    return mimetypes.guess_type(path, strict=False)[0]


def _unknown_uri() -> InvalidArgument:
    return InvalidArgument("uri: It names no file here.", hint="Files are file:///path/of/the/workspace/name.")
