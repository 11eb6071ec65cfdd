"""Watch protected paths while commands that share the workspace run, and undo at once what they do there.

What appears at a protected path that was absent is moved away. A protected link that is removed or replaced is put
back.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from wap_kernel.files.contained.inotify import FolderWatch
from wap_kernel.policy.paths.protected_links import find_links, restore_links
from wap_kernel.policy.paths.quarantine import open_ancestors, quarantine_files

Moved = list[tuple[str, str | None]]
"""The protected paths where a command did something, and where that is now; None where it removed a link."""
PERIOD_SECONDS = 1.0
"""Seconds after which the paths are compared although nothing was noticed: a folder that only a link leads to, or that
this process may not read, is not watched, and a name that goes is not noticed."""
MAX_NAMED = 100
"""Files that were moved away that the result of one command names."""


class ProtectedWatch:
    """The watch over one workspace; its thread runs as long as a command needs it. `root` is the open workspace."""

    def __init__(self, root: int, report: Callable[[str, str | None], None] = lambda *_: None) -> None:
        self._root = root
        self._report = report
        self._lock = threading.Lock()
        self._absent: Counter[str] = Counter()
        """The protected paths that did not exist when a command began, by how many commands that was."""
        self._links: Counter[tuple[str, str]] = Counter()
        """The protected links, with where they led when a command began, by how many commands that was."""
        self._listeners: list[Moved] = []
        """The lists of the commands that run."""
        self._watch: FolderWatch | None = None

    @contextmanager
    def watching(self, absent: Sequence[str], linked: Sequence[str] = ()) -> Iterator[Moved]:
        """Watch these paths, and the links on the way to those in `linked`, until the block ends.

        Yield the list of what was moved away, from where to where.
        """
        moved: Moved = []
        if not absent and not linked:
            yield moved
            return
        paths, links = self._begin(absent, linked, moved)
        try:
            yield moved
        finally:
            self._end(paths, links, moved)

    def _begin(
        self, absent: Sequence[str], linked: Sequence[str], moved: Moved
    ) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
        """Begin to watch for a command, and return its paths and links."""
        with self._lock:
            if self._watch is None:
                watch = FolderWatch()
                threading.Thread(target=self._run, args=(watch,), name="wap-watch", daemon=True).start()
                self._watch = watch
            # What another command has just created, and will lose, is absent for this one too; and a link that another
            # one has just replaced comes back.
            paths = frozenset((*absent, *self._absent))
            links = frozenset((find_links(self._root, linked) | dict([*self._links])).items())
            self._absent.update(paths)
            self._links.update(links)
            self._listeners.append(moved)
            self._add_folders(self._watch)
            return paths, links

    def _end(self, paths: frozenset[str], links: frozenset[tuple[str, str]], moved: Moved) -> None:
        with self._lock:
            try:
                self._sweep()
            finally:
                self._absent.subtract(paths)
                self._absent += Counter()  # drops what no command needs any more
                self._links.subtract(links)
                self._links += Counter()
                self._listeners = [each for each in self._listeners if each is not moved]
                if not self._listeners and self._watch is not None:
                    watch, self._watch = self._watch, None
                    watch.wake()

    def _run(self, watch: FolderWatch) -> None:
        while True:
            watch.wait(PERIOD_SECONDS)
            with self._lock:
                if self._watch is not watch:
                    watch.close()
                    return
                with suppress(OSError):  # too many open files: the next round tries again
                    # In this order: what appears in a folder before it is watched is found by the sweep.
                    self._add_folders(watch)
                    self._sweep()

    def _sweep(self) -> None:
        """Restore the links first: a path that is absent may lie behind one."""
        found: Moved = [*restore_links(self._root, dict([*self._links])), *quarantine_files(self._root, self._absent)]
        for old, new in found:
            self._report(old, new)
            for moved in self._listeners:
                if len(moved) < MAX_NAMED:
                    moved.append((old, new))

    def _add_folders(self, watch: FolderWatch) -> None:
        """Watch every folder on the way to a protected path, as far as it exists."""
        for path in (*self._absent, *(link for link, _ in self._links)):
            for folder in open_ancestors(self._root, path):
                watch.add(folder)
