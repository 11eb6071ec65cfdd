"""`wap runs`, `show`, `approve`, `deny`, `cancel` and `revert`, on a folder and on its server; and their colours."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server_processes import TOKEN, LiveServer, Place, get, start

ASKS = {"id": "rm", "type": "shell", "command": "rm -rf data"}

Wap = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def server(shared: Place) -> Iterator[LiveServer]:
    with shared.server() as started:
        yield started


@pytest.fixture(params=["found", "named", "folder"])
def where(request: pytest.FixtureRequest, shared: Place, server: LiveServer) -> list[str]:
    """The options that name the workspace: without any, its server is found."""
    named = ["--url", server.url, "--token", TOKEN]
    return {"found": [], "named": named, "folder": ["--root", str(shared.root)]}[request.param]


@pytest.fixture
def wap(shared: Place) -> Wap:
    """`wap ...` without a terminal: exit status, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        process = shared.wap(*arguments)
        out, err = process.communicate("", timeout=60)
        return process.returncode, out, err

    return run


def _start_waiting(shared: Place, server: LiveServer) -> tuple[str, str]:
    """The ids of a run that waits and of its approval."""
    (shared.root / "data").mkdir(exist_ok=True)
    message = start(server, ASKS, wait=30)
    return message["runId"], message["pendingApproval"]["approvalId"]


def test_show_has_the_diff_and_revert_takes_it_back(
    where: list[str], wap: Wap, shared: Place, server: LiveServer
) -> None:
    (shared.root / "a.txt").write_text("one\ntwo\n")
    made = {"type": "createFile", "path": "a.txt", "content": "one\n2\n", "overwrite": True}
    run_id = start(server, made, {"type": "deleteFile", "path": "missing"}, wait=30)["runId"]
    status, out, err = wap("runs", *where)
    assert status == 0, err
    assert f"{run_id}  ✗ completed, 1 problem" in out

    status, out, err = wap("show", run_id, *where)
    assert status == 0, err
    assert "done    write a.txt (replaced, +1 −1, 6 bytes)\n" in out  # noqa: RUF001
    assert "| -two\n" in out and "| +2\n" in out
    assert f"wap revert {run_id}" in out
    assert "\x1b" not in out and "%wap" not in out

    status, out, err = wap("revert", run_id, *where)
    assert status == 0, err
    assert out.splitlines()[-1].endswith(": completed")
    assert (shared.root / "a.txt").read_text() == "one\ntwo\n"
    status, _, err = wap("revert", "run_0000000000000000", *where)
    assert (status, err) == (3, "wap: There is no run 'run_0000000000000000'. List the runs to see their ids.\n")


def test_show_lists_what_a_command_changed(wap: Wap, shared: Place, server: LiveServer) -> None:
    (shared.root / "old.txt").write_text("x\n")
    run_id = start(server, {"type": "deleteFile", "path": "old.txt"}, wait=30)["runId"]
    _, out, err = wap("show", run_id)
    assert "The run deletes 1 file.\n" in out, err
    assert "| -x\n" in out


def test_an_approval_is_never_made_unseen(where: list[str], wap: Wap, shared: Place, server: LiveServer) -> None:
    run_id, approval = _start_waiting(shared, server)
    status, out, err = wap("show", run_id[:12], *where)
    assert status == 0, err
    assert "$ rm -rf data\n" in out and f"wap approve {run_id}\n" in out
    status, out, err = wap("approve", run_id, *where)
    assert (status, out) == (3, "")
    assert f"wap approve {approval}" in err
    assert (shared.root / "data").exists()
    status, out, err = wap("approve", approval, *where)
    assert status == 0, err
    assert out.splitlines()[-1] == f"{run_id}: completed"
    assert not (shared.root / "data").exists()
    status, _, err = wap("approve", approval, *where)
    assert status == 3 and "There is no run" in err


def test_deny_with_a_reason(where: list[str], wap: Wap, shared: Place, server: LiveServer) -> None:
    run_id, _ = _start_waiting(shared, server)
    status, out, err = wap("deny", run_id, "not", "today", *where)
    assert status == 0, err
    assert "denied  shell" in out and "not today" in out
    assert (shared.root / "data").exists()
    assert get(server, run_id)["status"] == "completed"


def test_cancel_and_json(where: list[str], wap: Wap, shared: Place, server: LiveServer) -> None:
    run_id, _ = _start_waiting(shared, server)
    _, out, _ = wap("runs", "-s", "awaiting_approval", "--json", *where)
    assert run_id in [run["runId"] for run in json.loads(out)["runs"]]
    status, out, err = wap("cancel", run_id, "--json", *where)
    assert status == 0, err
    assert json.loads(out)["status"] == "cancelled"
    assert wap("cancel", run_id[:9], "--nonsense")[0] == 3


# -- on a terminal


def _at_a_terminal(shared: Place, *arguments: str, answer: str = "", **environment: str) -> tuple[int, str]:
    """The exit status of `wap ...` and what a person sees of it, who answers the first prompt."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "wap_kernel.cli", *arguments],
        env={**shared.environment, "TERM": "xterm", **environment},
        cwd=shared.root,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    text, deadline = "", time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the process has closed its end
            break
        text += chunk.decode()
        if answer and "[y/N] " in text:
            os.write(master, f"{answer}\n".encode())
            answer = ""
    os.close(master)
    return process.wait(60), text.replace("\r\n", "\n")


def test_a_terminal_has_colours_unless_it_shall_not(shared: Place, server: LiveServer) -> None:
    (shared.root / "c.txt").write_text("one\n")
    made = {"type": "createFile", "path": "c.txt", "content": "\x1b[2Jtwo\n", "overwrite": True}
    run_id = start(server, made, wait=30)["runId"]
    status, text = _at_a_terminal(shared, "show", run_id)
    assert status == 0, text
    assert "\x1b[31m-one\x1b[0m" in text and "\x1b[32m+\\x1b[2Jtwo\x1b[0m" in text
    assert "\x1b" not in _at_a_terminal(shared, "show", run_id, NO_COLOR="1")[1]
    assert "\x1b" not in _at_a_terminal(shared, "show", run_id, TERM="dumb")[1]


@pytest.mark.parametrize("answer", ["y", ""])
def test_a_person_is_shown_the_approval_and_asked(shared: Place, server: LiveServer, answer: str) -> None:
    run_id, _ = _start_waiting(shared, server)
    status, text = _at_a_terminal(shared, "approve", run_id, answer=answer or "n", NO_COLOR="1")
    assert text.index("$ rm -rf data\n") < text.index("Approve it? [y/N] ")
    assert status == (0 if answer else 2)
    assert (shared.root / "data").exists() is not bool(answer)
    if not answer:
        assert get(server, run_id)["status"] == "awaiting_approval"
        server.request("POST", f"wap/runs/{run_id}/cancel", "{}")


def test_a_server_that_refuses_is_not_passed_over(wap: Wap, server: LiveServer, tmp_path: Path) -> None:
    status, out, err = wap("runs", "--url", server.url, "--token", "wrong")
    assert (status, out) == (3, "")
    assert "--token-file" in err
    status, _, err = wap("runs", "--token", "x")
    assert (status, err) == (3, "wap: --token and --token-file go with --url.\n")
