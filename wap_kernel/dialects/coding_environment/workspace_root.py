"""workspaceRoot: the folder that the tools read and change, and that a command starts in. Pure.

Paths in requests and in answers are relative to it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from wap_kernel.model import paths
from wap_kernel.model.errors import InvalidArgument


@dataclass(frozen=True)
class RootFolder:
    """The folder that workspaceRoot names, with its absolute names."""

    within: str
    names: tuple[str, ...]

    def resolve(self, text: str) -> str:
        """Return the path `text` of the caller relative to the server's root; the engine resolves links later."""
        path = _parse_contained(text, self.names)
        if self.within == ".":
            return path
        return self.within if path == "." else f"{self.within}/{path}"

    def resolve_new_file(self, text: str) -> str:
        """Resolve the path of a file to write; refuse a path that names a folder by a slash at its end."""
        path = self.resolve(text)
        if text.rpartition("/")[2] in ("", "."):
            raise InvalidArgument(
                f"The path names a folder: {text}", hint="Name the file itself, as in folder/file.txt.", path=text
            )
        return path


def parse_root(workspace_root: str, names_of_root: tuple[str, ...]) -> str:
    """Parse workspaceRoot; return the folder relative to the server's root, with links unresolved."""
    return posixpath.normpath(_parse_contained(workspace_root, names_of_root))


def build_root_folder(within: str, names_of_root: tuple[str, ...]) -> RootFolder:
    """Build the RootFolder of a folder whose links are resolved."""
    return RootFolder(within, names_of_root if within == "." else tuple(f"{name}/{within}" for name in names_of_root))


def render_relative(path: str, within: str) -> str:
    """Render a path of the engine relative to workspaceRoot."""
    path, within = paths.render_path(path), paths.render_path(within)
    if path == within:
        return "."
    return path if within == "." else path.removeprefix(f"{within}/")


def render_reachable(path: str, within: str) -> str:
    """Render a path that a command reached relative to workspaceRoot, also one outside that folder."""
    return posixpath.relpath(paths.render_path(path), paths.render_path(within))


def _parse_contained(text: str, names: tuple[str, ...]) -> str:
    path = paths.parse_path(text, names)
    if posixpath.normpath(path).split("/")[0] == "..":
        raise paths.outside(text)
    return path
