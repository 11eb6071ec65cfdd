"""workspaceRoot: the folder that files are read and changed in, and that a command starts in. Paths in requests and in
answers are relative to it. Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument


@dataclass(frozen=True)
class Place:
    """A folder of the workspace, and the absolute names that it has."""

    within: str
    names: tuple[str, ...]

    def path(self, text: str) -> str:
        """What the caller calls `text`, relative to the server's root. The engine asks again where links lead."""
        path = _staying(text, self.names)
        if self.within == ".":
            return path
        return self.within if path == "." else f"{self.within}/{path}"

    def new_file(self, text: str) -> str:
        """The same for a file that is to be. With a slash at its end the path names a folder."""
        path = self.path(text)
        if text.rpartition("/")[2] in ("", "."):
            raise InvalidArgument(
                f"The path names a folder: {text}", hint="Name the file itself, as in folder/file.txt.", path=text
            )
        return path


def named(workspace_root: str, names_of_root: tuple[str, ...]) -> str:
    """The folder, relative to the server's root, links not yet resolved."""
    return posixpath.normpath(_staying(workspace_root, names_of_root))


def at(within: str, names_of_root: tuple[str, ...]) -> Place:
    """The place of a real folder."""
    return Place(within, names_of_root if within == "." else tuple(f"{name}/{within}" for name in names_of_root))


def shown(path: str, within: str) -> str:
    """A path of the engine's as the caller knows it."""
    path, within = paths.render_path(path), paths.render_path(within)
    if path == within:
        return "."
    return path if within == "." else path.removeprefix(f"{within}/")


def _staying(text: str, names: tuple[str, ...]) -> str:
    path = paths.parse_path(text, names)
    if posixpath.normpath(path).split("/")[0] == "..":
        raise paths.outside(text)
    return path
