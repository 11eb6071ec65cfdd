"""What a search program may read, as descriptors: all of the root except what is hidden.

rg opens paths by itself. Leaving hidden files out of its answer is not enough: a folder swapped for a link to a hidden
one would still count, and a count is an oracle that gives a secret away letter by letter.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from wap_kernel.files.paths import join
from wap_kernel.files.primitives import Guard
from wap_kernel.files.walk import FOLDER_FLAGS


def readable(root_fd: int, guard: Guard, opened: ExitStack) -> list[int]:
    """Descriptors that together cover the root without what is hidden. `opened` closes those that were opened here."""
    return _below(root_fd, ".", guard, opened)


def _below(folder: int, path: str, guard: Guard, opened: ExitStack) -> list[int]:
    hidden, leading = guard.hidden_names(path), guard.names_leading_to_hidden(path)
    if not hidden and not leading:
        return [folder]
    covered: list[int] = []
    with os.scandir(folder) as found:
        names = [(entry.name, entry.name.casefold()) for entry in found if not entry.is_symlink()]
    for name, folded in names:
        if folded in hidden:
            continue
        on_the_way = folded in leading
        try:
            flags = FOLDER_FLAGS if on_the_way else os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=folder)
        except OSError:
            continue  # gone or unreadable: nothing to search there
        opened.callback(os.close, below)
        covered += _below(below, join(path, name), guard, opened) if on_the_way else [below]
    return covered
