"""/workspace: what this interface calls the root. Pure."""

from __future__ import annotations

from posixpath import normpath

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument

WORKSPACE = "/workspace"


def parse(text: str, names_of_root: tuple[str, ...]) -> str:
    """A caller's path relative to the root: below /workspace, relative to it, or as a command's `pwd` shows it."""
    return paths.parse_path(text, (WORKSPACE, *names_of_root))


def new_file(text: str, names_of_root: tuple[str, ...]) -> str:
    """The same for a file that is to be. With a slash at its end the path names a folder."""
    path = parse(text, names_of_root)
    if text.rpartition("/")[2] in ("", "."):
        raise InvalidArgument(
            f"The path names a folder: {text}", hint="Name the file itself, as in folder/file.txt.", path=text
        )
    return path


def beside(text: str, folder: str, names_of_root: tuple[str, ...]) -> str:
    """A path that is relative to `folder` unless it is absolute."""
    path = parse(text, names_of_root)
    return path if text.startswith("/") else normpath(paths.join_path(folder, path))


def shown(path: str) -> str:
    """A path of the engine's as the caller knows it."""
    path = paths.render_path(path)
    return WORKSPACE if path == "." else f"{WORKSPACE}/{path}"
