"""Notice that files have changed, by their identities and times."""

from __future__ import annotations

import os
import time
from functools import cached_property

Stamp = tuple[int, int, int, int]
"""Device, inode, and the times of the last changes."""
SETTLED_NS = 50_000_000
"""Age at which times tell: clocks of filesystems are coarse, so that a second change may leave younger ones as is."""
SETTLED_COARSE_NS = 4_000_000_000
"""Age at which times without a fraction of a millisecond tell: some filesystems have not even one of a second."""


class Stamps:
    """The stamps of files that somebody is about to read."""

    def __init__(self) -> None:
        self._found: dict[str, Stamp | None] = {}
        self._begun = time.time_ns()

    def note(self, path: str) -> Stamp | None:
        """Return the stamp of `path`, also for `are_current`; None if there is no such file. Call it before a read."""
        if path not in self._found:
            self._found[path] = _read_stamp(path)
        return self._found[path]

    def is_settled(self, path: str) -> bool:
        """Return whether a later change of `path` will change its stamp."""
        stamp = self._found.get(path)
        if stamp is None:
            return True
        newest = max(stamp[2:])
        return newest < self._begun - (SETTLED_NS if newest % 1_000_000 else SETTLED_COARSE_NS)

    def are_current(self) -> bool:
        """Return whether no file can have changed since its stamp was noted."""
        return self._are_settled and all(_read_stamp(path) == stamp for path, stamp in self._found.items())

    @cached_property
    def _are_settled(self) -> bool:
        return all(map(self.is_settled, self._found))


def _read_stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
