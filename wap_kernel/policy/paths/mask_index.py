"""Remember what a walk in search of masks found in each folder, as long as the folder stays as it is.

A folder's time of modification changes with every name that comes, goes or moves in it, so one stat a folder replaces
the listing of its files. A folder that changed a moment before it was listed is listed again: the clock of a
filesystem is coarse, and a second change within the same tick would leave no trace.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

MAX_RULES = 4
"""Sets of rules whose findings are remembered: agents with different scopes take turns."""
RACY_NS = 100_000_000

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class FolderMasks:
    """The paths of the entries of one folder that need a mask, and of the subfolders to look into."""

    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """The links among what is hidden or read-only; a mount guards only what they lead to."""
    repositories: tuple[tuple[str, bool], ...] = ()
    """The `.git` entries, and whether each is a folder."""
    folders: tuple[str, ...] = ()

    @cached_property
    def has_masks(self) -> bool:
        return bool(self.hidden or self.read_only or self.links or self.repositories)


class MaskIndex:
    """The findings of walks over one workspace, whose folders are reached from the descriptor `root`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._by_rules: dict[object, dict[str, tuple[Stamp, FolderMasks]]] = {}

    def open(self, rules: object) -> IndexedFolders:
        """Return the findings under these rules, which are compared by identity or equality."""
        with self._lock:
            known = self._by_rules.pop(rules, None) or {}
            while len(self._by_rules) >= MAX_RULES:
                del self._by_rules[next(iter(self._by_rules))]
            self._by_rules[rules] = known
        return IndexedFolders(self._root, known)


class IndexedFolders:
    """The findings under one set of rules."""

    def __init__(self, root: int, known: dict[str, tuple[Stamp, FolderMasks]]) -> None:
        self._root = root
        self._known = known

    def find(self, path: str, list_folder: Callable[[str], FolderMasks | None]) -> FolderMasks | None:
        """Return the findings in a folder; `list_folder` finds them where nothing is known, None if it is gone."""
        try:
            found = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        except OSError:
            self._known.pop(path, None)
            return None
        stamp = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        began = time.time_ns()
        masks = list_folder(path)
        if masks is not None and max(found.st_mtime_ns, found.st_ctime_ns) < began - RACY_NS:
            self._known[path] = (stamp, masks)
        else:
            self._known.pop(path, None)
        return masks
