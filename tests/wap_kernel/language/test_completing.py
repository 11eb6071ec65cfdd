"""Completion of lines, in a real workspace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wap_kernel.client.hands import Hands, connect
from wap_kernel.errors import ProviderUnavailable
from wap_kernel.language import Completer, completing


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hands]:
    base = tmp_path_factory.mktemp("completing")
    root = base / "ws"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "my folder").mkdir()
    for name in (
        "app.py",
        "src/main.py",
        "src/deep/x.py",
        "my folder/a b.txt",
        ".hidden",
        ".env",
        "it's",
        "odd\x1bname",
    ):
        (root / name).write_text("x\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(base / "data"))
        patch.setenv("JUPYTER_CONFIG_DIR", str(base / "config"))
        found = connect(str(root))
        yield found
        found.close()


@pytest.fixture
def completer(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Completer:
    monkeypatch.setattr(completing, "PATIENCE", 30.0)  # how busy the machine is does not matter here
    return Completer(lambda: hands)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("re", ["read", "revert"]),
        ("app", ["approve"]),
        ("nothing ", []),
        ("ls --", ["--help", "--recursive", "--depth", "--quiet", "--raise", "--to"]),
        ("read a.py --li", ["--lines"]),
        ("read ", ["app.py", "'it'\"'\"'s'", "'my folder/", "src/"]),
        ("read s", ["src/"]),
        ("read src/", ["src/deep/", "src/main.py"]),
        ("read src/m", ["src/main.py"]),
        ("read my", ["'my folder/"]),
        ("read 'my f", ["'my folder/"]),
        ("read 'my folder/", ["'my folder/a b.txt'"]),
        ("read 'my folder'/", ["'my folder/a b.txt'"]),
        ('read "my folder/a', ['"my folder/a b.txt"']),
        ("read my\\ folder/", ["'my folder/a b.txt'"]),
        ("read .h", [".hidden"]),
        ("read app.py ", []),
        ("read missing/", []),
        ("read ../", []),
        ("sh -C s", ["src/"]),
        ("sh -C ", ["'my folder/", "src/"]),
        ("sh -", ["-h", "--help", "-t", "--timeout", "-C", "--cwd", "-y", "--yes", "-n", "--dry-run", "-w", "--wait"]),
        ("sh -t 3 cat sr", ["src/"]),
        ("sh cat 'unclosed; ls ap", []),
        ("sh ls -l", []),
        ("git add s", ["src/"]),
        ("check wri", ["write"]),
        ("check read sr", ["src/"]),
        ("runs -s co", ["completed"]),
        ("--qu", ["--quiet"]),
        ("--to x --ra", ["--raise"]),
        ("--dry", []),
        ("help s", ["search", "sh", "show", "status"]),
        ("write --to x sr", ["src/"]),
    ],
)
def test_what_can_follow(completer: Completer, text: str, matches: list[str]) -> None:
    found = completer.complete(text, len(text))
    assert sorted(found.matches[: len(matches)] if text == "sh -" else found.matches) == sorted(matches)
    assert found.end == len(text)


def test_what_a_match_replaces(completer: Completer) -> None:
    text = "read 'my folder/a' 10:20"
    found = completer.complete(text, 17)
    assert (text[found.start : found.end], found.matches) == ("'my folder/a", ["'my folder/a b.txt'"])


def test_the_head_of_a_cell(completer: Completer) -> None:
    assert completer.complete("--dry", 5, heads_cell=True).matches == ["--dry-run"]
    assert completer.complete("-y --at", 7, heads_cell=True).matches == ["--atomic"]
    assert completer.complete("wri", 3, heads_cell=True).matches == ["write"]


def test_runs(completer: Completer, hands: Hands) -> None:
    run = hands.sh("true")
    assert run.run_id in completer.complete("show run_", 9).matches
    assert completer.complete("revert l", 8).matches == ["last"]
    assert run.run_id in completer.complete("deny ", 5).matches


def test_what_is_slow_is_left_out_and_not_asked_twice(hands: Hands) -> None:
    answer, asked = threading.Event(), threading.Semaphore(0)

    def slow() -> Hands:
        asked.release()
        assert answer.wait(30)
        return hands

    completer = Completer(slow)
    began = time.monotonic()
    assert completer.complete("read ", 5).matches == []
    assert completer.complete("read ", 5).matches == []
    assert time.monotonic() - began >= completing.PATIENCE
    assert asked.acquire(blocking=False)
    assert not asked.acquire(blocking=False)
    answer.set()
    assert completer._late is not None
    completer._late.join(30)
    assert completing.PATIENCE < 0.2


def test_who_has_no_server_has_no_completions() -> None:
    def missing() -> Hands:
        raise ProviderUnavailable("nobody answers")

    assert Completer(missing).complete("read ", 5).matches == []
    assert Completer(missing).complete("re", 2).matches == ["read", "revert"]


def test_denied_paths_do_not_show(completer: Completer, hands: Hands) -> None:
    from wap_kernel.errors import PermissionDenied

    with pytest.raises(PermissionDenied):
        hands.read(".env")
    assert completer.complete("read .e", 7).matches == []


def test_names_that_a_terminal_would_obey_do_not_show(completer: Completer) -> None:
    assert completer.complete("read o", 6).matches == []


def test_paths_are_relative_to_the_workspace(
    completer: Completer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completer.complete("read app", 8).matches == ["app.py"]
