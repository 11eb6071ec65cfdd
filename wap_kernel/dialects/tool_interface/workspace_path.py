"""Parse and render paths below /workspace, the interface's name of the root. Pure."""

from __future__ import annotations

from posixpath import normpath

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument

WORKSPACE = "/workspace"


def parse_path(text: str, names_of_root: tuple[str, ...]) -> str:
    """Return the path relative to the root, from one below /workspace, relative to it, or as `pwd` shows it."""
    return paths.parse_path(text, (WORKSPACE, *names_of_root))


def parse_new_file(text: str, names_of_root: tuple[str, ...]) -> str:
    """Return the path of a file to create; refuse a path that ends in a slash, which names a folder."""
    path = parse_path(text, names_of_root)
    if text.rpartition("/")[2] in ("", "."):
        raise InvalidArgument(
            f"The path names a folder: {text}", hint="Name the file itself, as in folder/file.txt.", path=text
        )
    return path


def parse_in_folder(text: str, folder: str, names_of_root: tuple[str, ...]) -> str:
    """Return the path relative to the root, from one that is relative to `folder` unless it is absolute."""
    path = parse_path(text, names_of_root)
    return path if text.startswith("/") else normpath(paths.join_path(folder, path))


def render_path(path: str) -> str:
    """Return a path of the engine as the caller knows it, below /workspace."""
    path = paths.render_path(path)
    return WORKSPACE if path == "." else f"{WORKSPACE}/{path}"
