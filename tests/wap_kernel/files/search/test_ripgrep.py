"""rg as a child process: how it starts, and how it ends when time is up or the workspace closes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.guards import OpenGuard
from wap_kernel.files.search import landlock, ripgrep
from wap_kernel.files.search.line_scanner import Hit
from wap_kernel.files.search.ripgrep import Ripgrep
from wap_kernel.files.search.ripgrep_program import (
    RipgrepProgram,
    find_program,
    find_system_program,
    find_wheel_program,
)
from wap_kernel.files.search.search_query import SearchQuery
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import ProviderUnavailable, TimedOut
from wap_kernel.policy.paths.protected import ProtectedPaths

QUERY = SearchQuery("needle", regex=False, case_sensitive=True)


def script(path: Path, text: str) -> Callable[[], RipgrepProgram]:
    """Write a program that stands for rg, and return how a search finds it."""
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return lambda: RipgrepProgram(str(path))


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Ripgrep, Path]]:
    """An rg that tells its process id in a file and then never ends."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    program = script(
        tmp_path / "rg", f"import os, time\nopen({str(pipe)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    rg = Ripgrep(program, OpenGuard(), None)
    yield rg, pipe
    rg.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_time_is_up(tmp_path: Path) -> None:
    rg = Ripgrep(script(tmp_path / "rg", "import time\ntime.sleep(600)"), OpenGuard(), None)
    with pytest.raises(TimedOut):
        rg.count(QUERY, ["-"], Deadline(0.05))
    assert not rg._running
    rg.close()


def test_closing_ends_what_is_running(slow: tuple[Ripgrep, Path]) -> None:
    rg, pipe = slow
    errors: list[BaseException] = []

    def search() -> None:
        try:
            rg.count(QUERY, ["-"], Deadline(600))
        except ProviderUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    pid = int(pipe.read_text())
    rg.close()
    thread.join()
    assert len(errors) == 1 and not is_running(pid)
    with pytest.raises(ProviderUnavailable):
        rg.count(QUERY, ["-"], Deadline(1))


def test_how_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty environment, nothing on stdin, no configuration, options ended before names."""
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/somewhere")
    told = tmp_path / "told"
    text = f"""
import json, os, sys
facts = [sys.argv[1:], dict(os.environ), sys.stdin.read()]
open({str(told)!r}, "w").write(json.dumps(facts))
"""
    rg = Ripgrep(script(tmp_path / "rg", text), OpenGuard(), None)
    rg.count(SearchQuery("-q", regex=True, case_sensitive=True), ["-n"], Deadline(30))
    rg.close()
    arguments, environment, stdin = json.loads(told.read_text())
    assert "--no-config" in arguments
    assert arguments[-3:] == ["--regexp=-q", "--", "-n"]
    assert "RIPGREP_CONFIG_PATH" not in environment and "PATH" not in environment
    assert stdin == ""


def test_it_has_a_lower_priority_and_we_keep_ours(slow: tuple[Ripgrep, Path]) -> None:
    rg, _ = slow
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    with open(os.devnull, "wb") as output:
        process = rg._start([], output.fileno(), ())
    try:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, ours + ripgrep.NICENESS)
        assert os.getpriority(os.PRIO_PROCESS, 0) == ours
    finally:
        process.kill()
        with process:
            pass


def test_it_can_be_cancelled(slow: tuple[Ripgrep, Path]) -> None:
    rg, pipe = slow
    pids: list[int] = []

    def is_cancelled() -> bool:
        """Once it runs."""
        if rg._running and not pids:
            pids.append(int(pipe.read_text()))
        return bool(pids)

    with pytest.raises(ProviderUnavailable):
        rg.count(QUERY, ["-"], Deadline(600, is_cancelled))
    assert pids and not is_running(pids[0])


def test_no_name_is_nothing_to_search() -> None:
    rg = Ripgrep(find_program, OpenGuard(), None)
    assert rg.count(QUERY, [], Deadline(30)) == {}
    rg.close()


@pytest.mark.parametrize(
    ("pattern", "hits"),
    [
        ("n.edle", [Hit(1, 0, 3), Hit(3, 11, 4)]),
        ("^$", [Hit(2, 10, 0)]),
        ("(?-u:\\xa9)", [Hit(3, 11, 2)]),
        ("^5$", [Hit(4, 29, 0)]),
        ("q*$", [Hit(1, 0, 9), Hit(2, 10, 0), Hit(3, 11, 17), Hit(4, 29, 1), Hit(5, 31, sys.maxsize)]),
    ],
)
def test_where_lines_match(tmp_path: Path, pattern: str, hits: list[Hit]) -> None:
    """Bytes, also of a line that rg shows because it is short, and of an empty match where the file ends."""
    path = tmp_path / "new\n1:2:3:x"
    path.write_bytes(b"xx needle\n\n\xff\xc3\xa9 needle needle\n5\nabc")
    rg = Ripgrep(find_program, OpenGuard(), None)
    query = SearchQuery(pattern, regex=True, case_sensitive=True)
    assert rg.hits(query, [str(path)], 9, Deadline(30)) == {str(path): hits}
    without_columns = [hit._replace(at=0) for hit in hits]
    assert rg.hits(query, [str(path)], 9, Deadline(30), with_columns=False) == {str(path): without_columns}
    assert rg.hits(query, [str(path)], 1, Deadline(30)) == {str(path): hits[:1]}
    rg.close()


@pytest.mark.skipif(not landlock.read_abi(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("find", [find_wheel_program, find_system_program])
def test_a_link_to_outside_is_followed_by_an_unconfined_rg_and_not_by_ours(
    tmp_path: Path, find: Callable[[], RipgrepProgram | None]
) -> None:
    """A race makes this of a folder that was checked before; here the moment is held still."""
    program = find()
    if program is None:
        pytest.skip("there is no rg of that kind")
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"needle\n")
    (tmp_path / "in" / "link").symlink_to("../out")
    names = ["./f", "./link/f", "./../out/f", str(tmp_path / "out")]
    plain = subprocess.run(
        [program.path, "-c", "needle", *names], cwd=tmp_path / "in", stdout=subprocess.PIPE, check=True
    )
    assert len(plain.stdout.splitlines()) == len(names)
    root = os.open(tmp_path / "in", os.O_RDONLY)
    rg = Ripgrep(find, OpenGuard(), root)
    assert rg.takes_paths
    assert rg.count(QUERY, names, Deadline(30)) == {"./f": 1}
    assert rg.hits(QUERY, names, 5, Deadline(30)) == {"./f": [Hit(1, 0, 0)]}
    rg.close()
    os.close(root)


@pytest.mark.skipif(landlock.read_abi() == 0, reason="needs Landlock")
@pytest.mark.parametrize("find", [find_wheel_program, find_system_program])
def test_an_upgrade_while_we_run_does_not_end_searching(
    tmp_path: Path, find: Callable[[], RipgrepProgram | None]
) -> None:
    """pip, or the system, puts another file in place of the one that Landlock lets us execute."""
    installed = find()
    if installed is None:
        pytest.skip("there is no rg of that kind")
    program = tmp_path / "bin" / "rg"
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "f").write_text("needle\n")
    program.parent.mkdir()
    shutil.copy(installed.path, program)
    root = os.open(tmp_path / "ws", os.O_RDONLY)
    rg = Ripgrep(lambda: replace(installed, path=str(program)), OpenGuard(), root)
    assert rg.takes_paths
    program.unlink()
    shutil.copy(installed.path, program)
    assert rg.count(QUERY, ["./"], Deadline(30)) == {"./f": 1}
    with open(tmp_path / "ws" / "f", "rb") as file:
        name = f"/dev/fd/{file.fileno()}"
        assert rg.hits(QUERY, ["./f", name], 5, Deadline(30), fds=[file.fileno()])["./f"] == [Hit(1, 0, 0)]
    rg.close()
    os.close(root)


@pytest.mark.skipif(landlock.read_abi() == 0, reason="needs Landlock")
def test_it_cannot_read_what_is_hidden_even_if_it_is_told_to(tmp_path: Path) -> None:
    """A link that appears between our look and rg's would otherwise make the secret count."""
    for name in ("a/secrets/token", "a/secrets/deep/token", "a/open", "b/file", "top"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    (tmp_path / "link").symlink_to("a/secrets")
    guard = ProtectedPaths(hidden=frozenset({("a", "secrets")}), read_only=frozenset())
    root = os.open(tmp_path, os.O_RDONLY)
    rg = Ripgrep(find_program, guard, root)
    assert rg.takes_paths
    names = ["./", "./link/", "./a/secrets/", "./a/secrets/token"]
    assert rg.count(QUERY, names, Deadline(10)) == {"./a/open": 1, "./b/file": 1, "./top": 1}
    rg.close()
    os.close(root)
