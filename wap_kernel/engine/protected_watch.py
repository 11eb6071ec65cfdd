"""Watch protected paths while commands that share the workspace run, and move away at once what appears there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from wap_kernel.files.contained.inotify import FolderWatch
from wap_kernel.policy.paths.quarantine import open_ancestors, quarantine_files

Moved = list[tuple[str, str]]


class ProtectedWatch:
    """The watch over one workspace; its thread runs as long as a command needs it. `root` is the open workspace."""

    def __init__(self, root: int, report: Callable[[str, str], None] = lambda *_: None) -> None:
        self._root = root
        self._report = report
        self._lock = threading.Lock()
        self._absent: Counter[str] = Counter()
        """The protected paths that did not exist when a command began, by how many commands that was."""
        self._listeners: list[Moved] = []
        """The lists of the commands that run."""
        self._watch: FolderWatch | None = None

    @contextmanager
    def watching(self, absent: Sequence[str]) -> Iterator[Moved]:
        """Watch these paths until the block ends; yield the list of what was moved away, from where to where."""
        moved: Moved = []
        if not absent:
            yield moved
            return
        self._begin(absent, moved)
        try:
            yield moved
        finally:
            self._end(absent, moved)

    def _begin(self, absent: Sequence[str], moved: Moved) -> None:
        with self._lock:
            self._absent.update(absent)
            self._listeners.append(moved)
            if self._watch is None:
                self._watch = FolderWatch()
                threading.Thread(target=self._run, args=(self._watch,), name="wap-watch", daemon=True).start()
            self._add_folders(self._watch)

    def _end(self, absent: Sequence[str], moved: Moved) -> None:
        with self._lock:
            self._sweep()
            self._absent.subtract(absent)
            self._absent += Counter()  # drops what no command needs any more
            self._listeners = [each for each in self._listeners if each is not moved]
            if not self._listeners and self._watch is not None:
                watch, self._watch = self._watch, None
                watch.wake()

    def _run(self, watch: FolderWatch) -> None:
        while True:
            watch.wait()
            with self._lock:
                if self._watch is not watch:
                    watch.close()
                    return
                self._sweep()
                self._add_folders(watch)

    def _sweep(self) -> None:
        for old, new in quarantine_files(self._root, self._absent):
            self._report(old, new)
            for moved in self._listeners:
                moved.append((old, new))

    def _add_folders(self, watch: FolderWatch) -> None:
        """Watch every folder on the way to a protected path, as far as it exists."""
        for path in self._absent:
            for folder in open_ancestors(self._root, path):
                watch.add(folder)
