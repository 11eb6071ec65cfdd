"""What a search program may read, as descriptors: all of the root except what is hidden.

rg opens paths by itself. Leaving hidden files out of its answer is not enough: a folder swapped for a link to a hidden
one would still count, and a count is an oracle that gives a secret away letter by letter.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.interface import Guard
from wap_kernel.model.paths import join_path

_NOTHING_THERE = {errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENOTDIR}
"""Gone, unreadable or replaced since its name was read: nothing to search. Other errors would falsify the answer."""


def readable(root_fd: int, guard: Guard) -> Iterator[int]:
    """Descriptors that together cover the root without what is hidden. Each is open until the next is asked for."""
    return _below(root_fd, ".", guard)


def _below(folder: int, path: str, guard: Guard) -> Iterator[int]:
    hidden, leading = guard.hidden_names(path), guard.names_leading_to_hidden(path)
    if not hidden and not leading:
        yield folder
        return
    with os.scandir(folder) as found:
        names = [(entry.name, entry.name.casefold()) for entry in found if not entry.is_symlink()]
    for name, folded in names:
        if folded in hidden:
            continue
        on_the_way = folded in leading
        flags = FOLDER_FLAGS if on_the_way else os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno in _NOTHING_THERE:
                continue
            raise
        try:
            if on_the_way:
                yield from _below(below, join_path(path, name), guard)
            else:
                yield below
        finally:
            os.close(below)
