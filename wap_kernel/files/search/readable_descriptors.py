"""Open descriptors that cover the root except what is hidden: these are all that a search program may read.

rg opens paths by itself. To leave hidden files out of its output is not enough: a folder swapped for a link to a hidden
one would still count, and a count is an oracle that gives a secret away letter by letter.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.interface import Guard
from wap_kernel.model.paths import join_path

_SKIPPED_ERRORS = {errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENOTDIR}
"""Errors of a file that is gone, unreadable or replaced: nothing to search. Others would falsify the result."""


def iterate_readable(root_fd: int, guard: Guard) -> Iterator[int]:
    """Yield descriptors that together cover the root without what is hidden. Each is open until the next one."""
    return _iterate_below(root_fd, ".", guard)


def _iterate_below(folder: int, path: str, guard: Guard) -> Iterator[int]:
    hidden, leading = guard.hidden_names(path), guard.names_leading_to_hidden(path)
    if not hidden and not leading:
        yield folder
        return
    with os.scandir(folder) as found:
        names = [(entry.name, entry.name.casefold()) for entry in found if not entry.is_symlink()]
    for name, folded in names:
        if folded in hidden:
            continue
        leads_to_hidden = folded in leading
        flags = FOLDER_FLAGS if leads_to_hidden else os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno in _SKIPPED_ERRORS:
                continue
            raise
        try:
            if leads_to_hidden:
                yield from _iterate_below(below, join_path(path, name), guard)
            else:
                yield below
        finally:
            os.close(below)
