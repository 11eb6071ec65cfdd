"""Keep the saves of a person and the renames of the engine apart, within one process.

Jupyter saves a file in place: a file that the engine renames away meanwhile would receive the rest of the save, and a
save between the engine's last lstat and its rename would be replaced. So a save registers its paths while it lasts, and
the engine does both steps in a critical section, which begins when none of its paths is being saved.

There is no deadlock: a save waits only for critical sections that have begun, and those wait for nothing. No lock is
owned during a save, so a save may await.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from wap_kernel.model.errors import Conflict
from wap_kernel.model.paths import relative_to, render_path

SAVE_TIMEOUT_SECONDS = 10.0
"""Seconds that a critical section waits for saves; a save waits as long at most, though sections take microseconds."""


class SaveGate:
    """The saves and the critical sections under way in one workspace."""

    def __init__(self, root: str, *, timeout: float = SAVE_TIMEOUT_SECONDS) -> None:
        self._names = tuple(dict.fromkeys((os.path.realpath(root), os.path.abspath(root))))
        """Absolute names of the root."""
        self.timeout = timeout
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        self._saves: dict[int, tuple[str, ...]] = {}
        """The paths of each save, by ticket."""
        self._sections: dict[int, tuple[str, ...]] = {}
        """The paths of each critical section, by thread."""

    @contextmanager
    def saving(self, *paths: str) -> Iterator[None]:
        """Register these paths as being saved until the block ends, whichever way it ends. The block may await."""
        ticket = self.begin_save(*paths)
        try:
            yield
        finally:
            self.end_save(ticket)

    def begin_save(self, *paths: str, timeout: float | None = None) -> int:
        """Register these paths as being saved; return the ticket for `end_save`.

        The paths are absolute or relative to the root and may lead through links. Paths outside the root are ignored.
        Raise Conflict if a critical section does not end within `timeout`; the event loop passes 0 and tries again.
        """
        timeout = self.timeout if timeout is None else timeout
        with self._changed:
            # The links are resolved when no critical section can replace them any more.
            if not self._changed.wait_for(lambda: not self._is_in_section(paths), timeout):
                raise Conflict("An agent's change of the same file takes too long.", hint="Save again in a moment.")
            ticket = next(self._tickets)
            self._saves[ticket] = self._resolve(paths)
            return ticket

    def end_save(self, ticket: int) -> None:
        """Forget the save; a second call has no effect."""
        with self._changed:
            if self._saves.pop(ticket, None):
                self._changed.notify_all()

    @contextmanager
    def exclusive(self, *paths: str) -> Iterator[None]:
        """Begin a critical section when none of these real paths, nothing below and no folder above is being saved.

        Sections on the same paths exclude each other, too. Within a section a thread may begin another one on the same
        paths or below them, but on no further ones: two threads could wait for each other. The paths are relative to
        the root. The block is short, does not wait, and does not run on the event loop's thread.
        """
        thread = threading.get_ident()
        with self._changed:
            is_nested = thread in self._sections
            if is_nested:
                self._check_nested(paths, self._sections[thread])
            else:
                is_busy = self._find_busy(paths) is not None
                if is_busy and not self._changed.wait_for(lambda: self._find_busy(paths) is None, self.timeout):
                    raise _busy(self._find_busy(paths) or paths[0])
                self._sections[thread] = paths
        try:
            yield
        finally:
            if not is_nested:
                with self._changed:
                    del self._sections[thread]
                    self._changed.notify_all()

    def _find_busy(self, paths: Iterable[str]) -> str | None:
        """Return one of `paths` that is being saved or is in another critical section."""
        busy = [path for group in (self._saves, self._sections) for taken in group.values() for path in taken]
        return next((path for path in paths if _overlap_any(path, busy)), None) if busy else None

    def _is_in_section(self, paths: Iterable[str]) -> bool:
        busy = [path for taken in self._sections.values() for path in taken]
        return bool(busy) and any(_overlap_any(path, busy) for path in self._resolve(paths))

    def _check_nested(self, paths: Iterable[str], outer: tuple[str, ...]) -> None:
        if not all(any(_is_at_or_below(path, folder) for folder in outer) for path in paths):
            raise RuntimeError("A nested critical section names a path that the outer section does not cover.")

    def _resolve(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return all names of `paths` relative to the root: as they are written, of a last link, of its target."""
        absolute = [os.path.normpath(os.path.join(self._names[0], path)) for path in paths]
        names = {
            *absolute,
            *(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in absolute),
            *map(os.path.realpath, absolute),
        }
        found = (relative_to(name, root) for name in names for root in self._names)
        return tuple({path or "." for path in found if path is not None})


def _overlap_any(path: str, others: Iterable[str]) -> bool:
    return any(_is_at_or_below(path, other) or _is_at_or_below(other, path) for other in others)


def _is_at_or_below(path: str, folder: str) -> bool:
    return path == folder or folder == "." or path.startswith(f"{folder}/")


def _busy(path: str) -> Conflict:
    return Conflict(
        f"A save of the same file takes too long: {render_path(path)}",
        hint="Read the file again in a moment, before you change it.",
        path=render_path(path),
    )
