"""Put links at protected paths back that a command removed or replaced.

A mount can guard a file or a folder, but not a link: `.bashrc -> dotfiles/bashrc` can be unlinked, and a file of the
command's own put there. On a Layer such a change is refused when it is judged. A command that shares the workspace
writes there directly, so the links are noted before it starts. What stands there instead is renamed, as in
`quarantine.py`, and the link is made anew.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial

from wap_kernel.model.paths import join_path, relative_to, split_path
from wap_kernel.policy.paths.quarantine import move_away, open_parent, retry_opened

MAX_LINKS = 40
"""Links that are followed on the way to one path."""


def find_links(root: int, paths: Iterable[str]) -> dict[str, str]:
    """Return the links on the way to `paths`, these included, below the open folder `root`: real paths and targets."""
    top = os.readlink(f"/proc/self/fd/{root}")
    return {link: target for path in paths for link, target in _follow(root, top, path)}


def _follow(root: int, top: str, path: str) -> Iterator[tuple[str, str]]:
    names, reached, count = list(reversed(split_path(path))), "", 0
    while names and count < MAX_LINKS:
        here = posixpath.normpath(posixpath.join(reached, names.pop()))
        if here == ".." or here.startswith("../"):
            return
        try:
            target = os.readlink(here, dir_fd=root)
        except OSError:  # no link, or nothing at all
            reached = here
            continue
        yield here, target
        count += 1
        if target.startswith("/"):
            inner = relative_to(target, top)
            if inner is None:
                return
            reached, target = "", inner
        names += reversed(split_path(target))


def restore_links(root: int, links: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Put back those of `links`, found by `find_links`, that are gone or replaced.

    Return the path of each and where that is now which stood there instead, None where there was nothing.
    """
    restored: list[tuple[str, str | None]] = []
    for path, target in sorted(links.items()):
        with ExitStack() as opened:
            folder = open_parent(opened, root, path)
            if folder is None:
                continue
            parent, name = posixpath.split(path)
            with suppress(OSError):
                if retry_opened(opened, folder, partial(_read_link, folder, name)) == target:
                    continue
                new = move_away(opened, folder, name)
                retry_opened(opened, folder, partial(os.symlink, target, name, dir_fd=folder))
                restored.append((path, None if new is None else join_path(parent or ".", new)))
    return restored


def _read_link(folder: int, name: str) -> str | None:
    """Return where the link leads; None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except PermissionError:
        raise
    except OSError:
        return None
