from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.budgets import limit_examples
from wap_kernel.files.save_gate import SaveGate
from wap_kernel.model.errors import Conflict

SECONDS = 60
"""The time after which threads that do not end count as a deadlock."""


@pytest.fixture
def gate(tmp_path: Path) -> SaveGate:
    """A gate on a folder, at which nobody waits: what would have to wait raises Conflict."""
    return SaveGate(str(tmp_path), timeout=0)


def run_thread(target: Callable[[], None]) -> list[Conflict]:
    """Run `target` in a thread; return the error it raised, if any."""
    errors: list[Conflict] = []

    def run() -> None:
        try:
            target()
        except Conflict as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()
    return errors


def is_busy(gate: SaveGate, *paths: str) -> bool:
    """Return whether a critical section on these paths would have to wait."""
    try:
        with gate.exclusive(*paths):
            return False
    except Conflict:
        return True


def is_save_refused(gate: SaveGate, path: str) -> bool:
    """Return whether a save in another thread would have to wait."""

    def save() -> None:
        with gate.saving(path):
            pass

    return bool(run_thread(save))


@pytest.mark.parametrize(
    ("saved", "section", "busy"),
    [
        ("a/b.txt", "a/b.txt", True),
        ("a/b.txt", "a", True),
        ("a", "a/b.txt", True),
        ("a/b.txt", ".", True),
        (".", "a/b.txt", True),
        ("a/./c/../b.txt", "a/b.txt", True),
        ("a/b.txt", "a/c.txt", False),
        ("a/b.txt", "a/b.txt.bak", False),
        ("a/b", "a/bc/d", False),
        ("../a/b.txt", "a/b.txt", False),
    ],
)
def test_a_section_waits_for_saves_at_above_and_below_its_paths(
    gate: SaveGate, saved: str, section: str, busy: bool
) -> None:
    with gate.saving(saved):
        assert is_busy(gate, section) is busy
        assert is_busy(gate, "other", section) is busy
    assert not is_busy(gate, section)
    with gate.exclusive(section):
        assert is_save_refused(gate, saved) is busy
    assert not is_save_refused(gate, saved)


def test_the_error_of_a_section_names_its_path(gate: SaveGate) -> None:
    with gate.saving("a/b.txt"), pytest.raises(Conflict) as raised, gate.exclusive("c.txt", "a"):
        pass
    assert raised.value.details == {"path": "a"}
    assert raised.value.message.endswith(": a") and raised.value.hint


def test_a_saved_path_is_resolved_through_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    outside.mkdir()
    (root / "linked").symlink_to("real")
    (root / "real" / "file").symlink_to("target")
    (root / "away").symlink_to(outside)
    (tmp_path / "name").symlink_to(root)
    gate = SaveGate(str(tmp_path / "name"), timeout=0)
    for path in ("linked/file", str(root / "linked" / "file"), str(tmp_path / "name" / "linked" / "file")):
        with gate.saving(path):
            # its target, the link to it, and the link on the way
            assert all(is_busy(gate, each) for each in ("real/target", "real/file", "linked", "real"))
            assert not is_busy(gate, "real/other")
    with gate.saving("away/file", str(outside / "file")):
        assert not is_busy(gate, "file")
        assert not is_busy(gate, "outside/file")
        assert is_busy(gate, "away")


def test_a_link_that_a_section_replaces_is_resolved_afterwards(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("old")
    gate = SaveGate(str(tmp_path), timeout=SECONDS)
    begun = threading.Event()

    def save() -> None:
        begun.set()
        gate.begin_save("link/file")

    with gate.exclusive("link"):
        thread = threading.Thread(target=save, daemon=True)
        thread.start()
        begun.wait(SECONDS)
        link.unlink()
        link.symlink_to("new")
    thread.join(SECONDS)
    gate.timeout = 0
    assert is_busy(gate, "new/file") and not is_busy(gate, "old/file")


def test_a_path_is_free_when_its_last_save_has_ended(gate: SaveGate) -> None:
    first, second = gate.begin_save("a"), gate.begin_save("a")
    gate.end_save(first)
    gate.end_save(first)
    assert is_busy(gate, "a")
    gate.end_save(second)
    assert not is_busy(gate, "a")


def test_a_save_that_fails_is_unregistered(gate: SaveGate) -> None:
    with pytest.raises(ZeroDivisionError), gate.saving("a"):
        raise ZeroDivisionError
    assert not is_busy(gate, "a")


def test_a_section_that_fails_is_unregistered(gate: SaveGate) -> None:
    with pytest.raises(ZeroDivisionError), gate.exclusive("a"):
        raise ZeroDivisionError
    assert not is_save_refused(gate, "a")


def test_a_save_that_is_cancelled_is_unregistered(gate: SaveGate) -> None:
    async def save(begun: asyncio.Event) -> None:
        with gate.saving("a"):
            begun.set()
            await asyncio.Event().wait()

    async def cancel() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(save(begun))
        await begun.wait()
        assert is_busy(gate, "a")
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancel())
    assert not is_busy(gate, "a")


def test_a_section_within_a_section_stays_below_its_paths(gate: SaveGate) -> None:
    with gate.exclusive("a", "b"):
        with gate.exclusive("a/c", "b"):
            pass
        assert is_save_refused(gate, "a")  # the outer one has not ended
        with pytest.raises(RuntimeError), gate.exclusive("c"):
            pass
    assert not is_save_refused(gate, "a")


def test_sections_on_the_same_paths_exclude_each_other(gate: SaveGate) -> None:
    def begin() -> None:
        with gate.exclusive("b", "a/c"):
            pass

    with gate.exclusive("a"):
        assert len(run_thread(begin)) == 1
    assert run_thread(begin) == []


def test_a_save_within_a_save_does_not_wait_for_a_section_that_waits(tmp_path: Path) -> None:
    gate = SaveGate(str(tmp_path), timeout=SECONDS)
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        with gate.exclusive("a", "b"):
            pass

    thread = threading.Thread(target=begin, daemon=True)
    with gate.saving("a"):
        thread.start()
        begun.wait(SECONDS)
        with gate.saving("a"), gate.saving("b"):
            pass
    thread.join(SECONDS)
    assert not thread.is_alive()


class Overlaps:
    """A record of saves and sections under way, which knows the rule in other words than the gate."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[tuple[str, str]] = []
        self.violations: list[str] = []

    @contextmanager
    def record(self, kind: str, paths: tuple[str, ...]) -> Iterator[None]:
        entries = [(kind, path) for path in paths]
        with self._lock:
            self.violations += [
                f"{kind} {path} during {other} {taken}"
                for path in paths
                for other, taken in self._active
                if "section" in (kind, other) and self._overlap(PurePosixPath(path), PurePosixPath(taken))
            ]
            self._active += entries
        try:
            yield
        finally:
            with self._lock:
                for entry in entries:
                    self._active.remove(entry)

    @staticmethod
    def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
        return one in (other, *other.parents) or other in (one, *one.parents)


PATHS = st.lists(st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e", "."]), min_size=1, max_size=3, unique=True).map(
    tuple
)
STEPS = st.lists(st.tuples(st.sampled_from(["save", "save in save", "failed save", "section"]), PATHS), max_size=8)


@limit_examples(40)
@given(programs=st.lists(STEPS, min_size=2, max_size=6))
def test_saves_and_sections_never_meet_and_all_of_them_end(
    tmp_path_factory: pytest.TempPathFactory, programs: list[list[tuple[str, tuple[str, ...]]]]
) -> None:
    gate = SaveGate(str(tmp_path_factory.getbasetemp()), timeout=SECONDS)
    overlaps = Overlaps()
    start = threading.Barrier(len(programs))
    ended: list[int] = []

    def perform(kind: str, paths: tuple[str, ...]) -> None:
        if kind == "section":
            with gate.exclusive(*paths), overlaps.record("section", paths):
                time.sleep(0)  # let others run
            return
        with gate.saving(*paths), overlaps.record("save", paths):
            time.sleep(0)
            if kind == "save in save":
                perform("save", ("d/e",))
            elif kind == "failed save":
                raise ZeroDivisionError

    def run(program: list[tuple[str, tuple[str, ...]]]) -> None:
        start.wait(SECONDS)
        for kind, paths in program:
            with suppress(ZeroDivisionError):
                perform(kind, paths)
        ended.append(len(program))

    threads = [threading.Thread(target=run, args=(program,), daemon=True) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(ended) == sorted(map(len, programs)) and overlaps.violations == []
    gate.timeout = 0
    assert not is_busy(gate, ".")
