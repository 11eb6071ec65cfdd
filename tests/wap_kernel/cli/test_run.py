"""`wap run`, on a folder and on a server: what it prints, what its exit status is, and how it is stopped."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server_processes import TOKEN, LiveServer, Place, batch, decide, get

LONG = {"type": "shell", "command": "echo begun; sleep 1000", "timeout": 600_000}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def server(shared: Place) -> Iterator[LiveServer]:
    with shared.server() as started:
        yield started


@pytest.fixture(params=["folder", "server"])
def where(request: pytest.FixtureRequest, shared: Place) -> list[str]:
    """The options that name the place of the work: both are the same folder."""
    if request.param == "folder":
        return ["--root", str(shared.root)]
    server = request.getfixturevalue("server")
    return ["--url", server.url, "--token", TOKEN]


@pytest.fixture
def run(shared: Place) -> Run:
    """`wap run - ...` with operations on its standard input: exit status, stdout, stderr."""

    def run(where: list[str], *operations: dict[str, Any], sent: str | None = None) -> tuple[int, str, str]:
        process = shared.wap("run", "-", *where)
        out, err = process.communicate(batch(*operations) if sent is None else sent, timeout=60)
        return process.returncode, out, err

    return run


def test_a_batch_is_shown_event_by_event(where: list[str], run: Run, shared: Place) -> None:
    (shared.root / "b.txt").unlink(missing_ok=True)
    status, out, err = run(
        where,
        {"type": "message", "id": "hello", "content": "Hello"},
        {"type": "createFile", "path": "b.txt", "content": "one\n"},
        {"type": "createFile", "path": "b.txt", "content": "two\n"},
        {"type": "editFile", "path": "b.txt", "edits": [{"oldContent": "one", "newContent": "1"}]},
        {"type": "readFile", "path": "b.txt"},
        {"type": "shell", "command": "cat b.txt; printf 'x\\033[2J' >&2; exit 3"},
        {"type": "deleteFile", "path": "b.txt"},
    )
    assert status == 1, err  # two operations failed
    lines = out.splitlines()
    assert lines[:5] == [
        "ok      message hello",
        "ok      createFile b.txt (4 bytes)",
        "failed  createFile b.txt: File already exists",
        "ok      editFile b.txt (1 edits)",
        "ok      readFile b.txt (2 bytes)",
    ]
    assert set(lines[5:7]) == {"  | 1", "  ! x\\x1b[2J"}
    assert lines[7].startswith("failed  shell cat b.txt; printf")
    assert "(exit 3, " in lines[7]
    assert lines[8] == "ok      deleteFile b.txt"
    assert lines[9].startswith("run_")
    assert lines[9].endswith(": completed")


def test_json_has_the_events_and_the_message_last(where: list[str], run: Run) -> None:
    operations = [{"type": "message", "content": str(number)} for number in range(3)]
    status, out, err = run([*where, "--json"], *operations)
    assert status == 0, err
    *events, message = [json.loads(line) for line in out.splitlines()]
    assert events == message["events"]
    assert [event["operationId"] for event in events] == ["op-1", "op-2", "op-3"]
    assert (message["protocolVersion"], message["status"]) == ("1.0", "completed")


def test_what_asks_ends_with_2_and_says_how_to_decide(
    where: list[str], run: Run, shared: Place, server: LiveServer
) -> None:
    (shared.root / "data").mkdir(exist_ok=True)
    status, out, err = run(where, {"id": "rm", "type": "shell", "command": "rm -rf data"})
    assert status == 2, err
    assert (shared.root / "data").exists()
    run_id = next(line for line in out.splitlines() if line.startswith("run_")).split(":")[0]
    assert f"wap approve {run_id} {' '.join(where[:2])}\n" in out  # never with the token
    assert f"wap deny {run_id} {' '.join(where[:2])}\n" in out
    assert TOKEN not in out
    assert decide(server, get(server, run_id), "approved")["status"] == "completed"
    assert not (shared.root / "data").exists()


def test_what_is_denied_ends_with_1(where: list[str], run: Run) -> None:
    status, out, err = run(where, {"type": "createFile", "path": ".cws-policy.json", "content": "{}"})
    assert status == 1, err
    assert "denied" in out


def test_atomic_undoes_and_a_dry_run_changes_nothing(where: list[str], run: Run, shared: Place) -> None:
    made = {"type": "createFile", "path": "made.txt", "content": "x"}
    status, out, err = run([*where, "--atomic"], made, {"type": "deleteFile", "path": "missing"})
    assert status == 1, err
    assert not (shared.root / "made.txt").exists()
    assert out.splitlines()[-1].endswith(": error")
    status, out, err = run([*where, "--dry-run"], made, {"type": "readFile", "path": "made.txt"})
    assert status == 0, err
    assert "would   createFile made.txt (1 bytes, verdict allow, rule " in out and "  | +x\n" in out
    assert "would   readFile made.txt (1 bytes, verdict allow, rule " in out
    assert out.splitlines()[-1].endswith(": completed; nothing was changed")
    assert not (shared.root / "made.txt").exists()


def _begun(shared: Place, *arguments: str) -> subprocess.Popen[str]:
    """A run whose command has begun."""
    process = shared.wap("run", "-", *arguments)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(batch(LONG))
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == "  | begun\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_cancels_the_run(where: list[str], shared: Place, number: signal.Signals) -> None:
    process = _begun(shared, *where)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert out.splitlines()[-1].endswith(": cancelled")
    assert "Traceback" not in err


def test_whoever_stops_reading_stops_the_run(where: list[str], shared: Place, server: LiveServer) -> None:
    process = shared.wap("run", "-", *where)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(batch({**LONG, "command": "echo begun; while true; do echo more; sleep 0.05; done"}))
    process.stdin.close()
    assert process.stdout.readline() == "  | begun\n"
    process.stdout.close()
    assert process.wait(60) == 1
    with process.stderr:
        assert not re.search("Traceback|Broken", process.stderr.read())
    assert server.request("GET", "wap/runs?status=running")[1]["runs"] == []


def _in_a_shell(shared: Place, command: str) -> tuple[int, str]:
    """Exit status and stderr of `wap ...` as a shell starts it."""
    wap = shlex.join([sys.executable, "-m", "wap_kernel.cli"])
    done = subprocess.run(
        ["bash", "-c", f"{wap} {command}"],
        cwd=shared.root,
        env=shared.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_streams_that_are_closed_or_full(shared: Place) -> None:
    batch_file = shared.root / "batch.json"
    batch_file.write_text(batch({"type": "message", "content": "x"}))
    cases = {
        "run - <&-": (3, "no batch of operations"),
        "run batch.json >/dev/full": (1, "wap: No space left on device\n"),
        "audit verify >&-": (0, ""),
    }
    for command, (status, said) in cases.items():
        got, complaints = _in_a_shell(shared, command)
        assert got == status, command
        assert said in complaints
        assert "Traceback" not in complaints, command
    batch_file.unlink()


def test_ctrl_c_before_anything_was_sent(shared: Place) -> None:
    process = shared.wap("run", "-")
    _until_it_reads(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (3, "", "")


def _until_it_reads(pid: int) -> None:
    """Its standard input, which the kernel tells by the number of the call and the descriptor."""
    deadline = time.monotonic() + 60
    while not Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 "):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_that_ends_just_when_the_time_is_over_has_ended(shared: Place, run: Run) -> None:
    status, out, err = run(["--root", str(shared.root), "--wait", "0"])
    assert status == 0, err
    assert out.splitlines()[-1].endswith(": completed")


def test_waiting_has_an_end(shared: Place, server: LiveServer, run: Run) -> None:
    status, out, err = run(["--root", str(shared.root), "--wait", "0.5"], LONG)
    assert status == 1, err
    assert out.splitlines()[-1].endswith(": cancelled")

    status, out, err = run(["--url", server.url, "--token", TOKEN, "--wait", "0.5"], LONG)
    assert status == 1, err
    last = out.splitlines()[-1]
    assert last.endswith(": running")
    assert server.request("POST", f"wap/runs/{last.split(':')[0]}/cancel", "{}")[0] == 200


def test_the_server_is_named_by_the_environment_and_the_token_by_a_file(
    shared: Place, server: LiveServer, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"type": "message", "content": "x"}
    monkeypatch.setitem(shared.environment, "WAP_URL", server.url)
    monkeypatch.setitem(shared.environment, "WAP_TOKEN", TOKEN)
    assert run([], message)[0] == 0
    monkeypatch.setitem(shared.environment, "WAP_TOKEN", "wrong")
    status, _, err = run([], message)
    assert (status, "Not authenticated" in err) == (3, True)
    assert "--token-file" in err and "wap token create" in err
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert run(["--url", server.url, "--token-file", str(file)], message)[0] == 0
    assert run(["--root", str(shared.root)], message)[0] == 0  # named explicitly, so not the server


def test_an_agent_token_works(shared: Place, server: LiveServer, run: Run) -> None:
    minted = server.request("POST", "wap/tokens", json.dumps({"name": "an agent"}))[1]
    status, out, err = run(["--url", server.url, "--token", minted["token"]], {"type": "message", "content": "x"})
    assert status == 0, err
    assert minted["token"] not in out + err


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ('[{"type": "message",}]', "standard input is not valid JSON"),
        ('[{"type": "readFile", "path": "a"}, {"type": "readFile", "path": "/b"}]', "operations.1"),
        ('{"protocolVersion": "2.0", "operations": []}', "protocolVersion"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(where: list[str], run: Run, sent: str, told: str) -> None:
    status, out, err = run(where, sent=sent)
    assert (status, out) == (3, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("wrong", [[], ["-", "--wait", "soon"], ["-", "--root", ".", "--url", "http://localhost/"]])
def test_usage(shared: Place, wrong: list[str]) -> None:
    process = shared.wap("run", *wrong)
    _, err = process.communicate("", timeout=60)
    assert process.returncode == 3
    assert "usage: wap run" in err


def test_a_folder_that_is_not_there(shared: Place, run: Run) -> None:
    status, out, err = run(["--root", str(shared.root / "missing")], {"type": "message", "content": "x"})
    assert (status, out) == (3, "")
    assert err.startswith("wap: ")
    assert "Traceback" not in err
