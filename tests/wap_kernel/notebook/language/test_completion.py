"""Completion of lines, in a real workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wap_kernel.client.workspace_client import WorkspaceClient, connect
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.notebook.language import Completer, completion, lookup


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceClient]:
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
def completer(client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch) -> Completer:
    monkeypatch.setattr(completion, "PATIENCE", 30.0)  # how busy the machine is does not matter here
    return Completer(lambda: client)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("re", ["read", "revert"]),
        ("app", ["approve", "apply"]),
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
        ("sh -", ["-h", "--help", "-t", "--timeout", "-C", "--cwd", "--shared", "-y", "--yes", "-n", "--dry-run"]),
        ("sh --sh", ["--shared"]),
        ("sh --shared cat sr", ["src/"]),
        ("apply last s", ["src/"]),
        ("apply last app.py src/m", ["src/main.py"]),
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


def test_runs(completer: Completer, client: WorkspaceClient) -> None:
    run = client.sh("true")
    assert run.run_id in completer.complete("show run_", 9).matches
    assert completer.complete("revert l", 8).matches == ["last"]
    assert run.run_id in completer.complete("deny ", 5).matches


class Slow:
    """WorkspaceClient that are found when it is said so."""

    def __init__(self, client: WorkspaceClient) -> None:
        self.client = client
        self.asked = 0
        self.may_answer = threading.Event()

    def __call__(self) -> WorkspaceClient:
        self.asked += 1
        assert self.may_answer.wait(30)
        return self.client

    def answer(self) -> None:
        self.may_answer.set()
        for thread in threading.enumerate():
            if thread.name in ("wap-asking", "wap-connecting"):
                thread.join(30)


@pytest.fixture
def slow(client: WorkspaceClient) -> Iterator[Slow]:
    made = Slow(client)
    yield made
    made.answer()


def test_what_is_slow_is_left_out_and_not_asked_twice(slow: Slow) -> None:
    completer = Completer(slow)
    assert completer.complete("read ", 5).matches == []
    assert completer.complete("read ", 5).matches == []
    assert completer.complete("show ", 5).matches == ["last"]
    assert completion.PATIENCE <= 0.1
    slow.answer()
    assert slow.asked == 1


def test_what_came_too_late_is_there_with_the_next_tab(slow: Slow) -> None:
    completer = Completer(slow)
    assert completer.complete("read app", 8).matches == []
    slow.answer()
    assert completer.complete("read app", 8).matches == ["app.py"]
    assert slow.asked == 1


def test_what_came_too_late_answers_nothing_else(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    completer = Completer(slow)
    assert completer.complete("read app", 8).matches == []
    slow.answer()
    monkeypatch.setattr(completion, "PATIENCE", 30.0)
    assert completer.complete("read src/", 9).matches == ["src/deep/", "src/main.py"]
    assert slow.asked == 2


def test_whoever_has_no_time_left_waits_for_nothing(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 30.0)
    assert Completer(slow).complete("read ", 5, until=0.0).matches == []  # else an assertion of Slow's


def test_until_there_are_hands_nobody_waits_for_them(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 30.0)
    found = threading.Event()
    completer = Completer(slow, found.is_set)
    for _ in range(3):
        assert completer.complete("read app", 8).matches == []  # would not return before there is an answer
    slow.answer()
    assert slow.asked == 1
    found.set()
    assert completer.complete("read app", 8).matches == ["app.py"]


def test_the_time_begins_when_completion_does(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was slow before a lookup is taken from its time."""
    clock = iter([0.0, 31.0])
    monkeypatch.setattr(completion, "PATIENCE", 30.0)
    for module in (completion, lookup):
        monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    assert Completer(slow).complete("read ", 5).matches == []  # else an assertion of Slow's, after 30 seconds
    assert next(clock, None) is None


def test_who_has_no_server_has_no_completions() -> None:
    def missing() -> WorkspaceClient:
        raise ProviderUnavailable("nobody answers")

    assert Completer(missing).complete("read ", 5).matches == []
    assert Completer(missing).complete("re", 2).matches == ["read", "revert"]


def test_denied_paths_do_not_show(completer: Completer, client: WorkspaceClient) -> None:
    from wap_kernel.model.errors import PermissionDenied

    with pytest.raises(PermissionDenied):
        client.read(".env")
    assert completer.complete("read .e", 7).matches == []


def test_names_that_a_terminal_would_obey_do_not_show(completer: Completer) -> None:
    assert completer.complete("read o", 6).matches == []


def test_paths_are_relative_to_the_workspace(
    completer: Completer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completer.complete("read app", 8).matches == ["app.py"]
