"""`%wap` in a kernel that a real server with the extension has started."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import nbformat
import pytest

from scripts.demo import Server, run_notebook, running_server
from tests.wap_kernel.magics_kernel import SECONDS, Kernel, ask, kernel_of, running_run, waiting_run

ASKS = "factor 6"
"""The standard policy does not know this program, so it asks."""
AGREED = "6: 2 3"
"""What it writes."""
NOT_OVER = "sleep 1000"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        (running.workspace / "src").mkdir()
        (running.workspace / "src" / "app.py").write_text("x = 1\ny = 2\nz = 3\n")
        (running.workspace / "my notes.txt").write_text("notes\n")
        yield running


@pytest.fixture(scope="module")
def started(server: Server) -> Iterator[tuple[Kernel, str]]:
    with kernel_of(server) as (kernel, kernel_id):
        assert kernel.run("%load_ext wap_kernel").outputs == []
        yield kernel, kernel_id


@pytest.fixture
def kernel(started: tuple[Kernel, str]) -> Kernel:
    return started[0]


@pytest.fixture(autouse=True)
def nothing_waits(server: Server) -> Iterator[None]:
    yield
    for run in ask(server, "wap/runs?status=awaiting_approval")["runs"]:
        ask(server, f"wap/runs/{run['runId']}/cancel", {})


@pytest.fixture
def kernel_id(started: tuple[Kernel, str]) -> str:
    return started[1]


# -- looking


def test_it_finds_the_server_that_started_it(kernel: Kernel, server: Server) -> None:
    cell = kernel.run("%wap")
    assert cell.kinds == ["execute_result"]
    assert server.url.rstrip("/") in cell.text
    assert str(server.workspace) in cell.text
    assert "standard" in cell.text
    assert kernel.value("_.data['place']['kind']") == "server"


def test_what_only_looks_is_the_value_of_the_cell(kernel: Kernel) -> None:
    cell = kernel.run("%wap read src/app.py 2:3")
    assert cell.kinds == ["execute_result"]
    assert "y = 2" in cell.text and "x = 1" not in cell.text
    assert "text/html" in cell.outputs[0]["data"]
    assert kernel.value("_.text") == "y = 2\nz = 3\n"
    assert kernel.run("found = %wap ls src").outputs == []
    assert kernel.value("list(found)") == ["src/app.py"]
    assert kernel.run("%wap search --to hits -q 'y = 2'").outputs == []
    assert kernel.value("hits.paths") == ["src/app.py"]


@pytest.mark.parametrize(
    "line", ["ls -r", "search x src -i", "runs", "audit -n 5", "policy", "grants", "check sh ls", "help", "sh --help"]
)
def test_every_look_shows_itself(kernel: Kernel, line: str) -> None:
    cell = kernel.run(f"%wap {line}")
    assert (cell.status, cell.kinds) == ("ok", ["execute_result"]), cell.text


def test_nothing_in_a_line_is_python(kernel: Kernel) -> None:
    kernel.run("name = 'expanded'")
    assert kernel.run("%wap sh -q echo '{name}' $name").outputs == []
    assert kernel.value("_.stdout") == "{name}\n"


# -- doing


def test_a_run_is_shown_once_and_is_the_value(kernel: Kernel, server: Server) -> None:
    cell = kernel.run("%wap write made.txt hello")
    assert cell.kinds == ["display_data"]
    assert "made.txt" in cell.text
    assert (server.workspace / "made.txt").read_text() == "hello"
    assert kernel.value("_.files") == ["made.txt"]
    again = kernel.run("_")
    assert again.kinds == ["execute_result"], "shown again when it is asked for again"
    kernel.run("%wap revert last -q")
    assert not (server.workspace / "made.txt").exists()


def test_a_long_run_is_followed_and_saved_once(kernel: Kernel, server: Server) -> None:
    gate = server.workspace / "gate"
    os.mkfifo(gate)
    begun = kernel.start("%wap sh echo first words; cat gate; echo the end")
    kernel.until(begun, "| first words")
    assert "completed" not in begun[1].text
    gate.write_text("opened\n")
    cell = kernel.finish(begun)
    assert cell.kinds == ["display_data"]
    assert "| opened" in cell.text and "| the end" in cell.text and "completed" in cell.text
    assert cell.updates >= 1


def test_much_output_is_drawn_now_and_then(kernel: Kernel) -> None:
    cell = kernel.run("%wap sh seq 300000")
    seconds = kernel.value("_.events[-1]['durationMs']") / 1000
    assert cell.kinds == ["display_data"]
    assert cell.updates <= 8 * (seconds + 5)
    assert len(json.dumps(cell.outputs[0]["data"])) < 100_000


def test_a_notebook_is_saved_with_each_card_once(server: Server) -> None:
    sources = ["%load_ext wap_kernel", "%wap sh echo begun; sleep 0.5; echo ended", "%wap read src/app.py", "%%wap\n[]"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    run_notebook(notebook, server)
    kinds = [[output.output_type for output in cell.outputs] for cell in notebook.cells]
    assert kinds == [[], ["display_data"], ["execute_result"], ["display_data"]]
    assert "completed" in notebook.cells[1].outputs[0].data["text/plain"]
    assert "ended" in notebook.cells[1].outputs[0].data["text/html"]


def test_every_run_of_a_cell_is_shown(kernel: Kernel) -> None:
    cell = kernel.run("%wap sh echo one\n%wap read missing.txt\nkept = %wap sh echo two\nprint('three')")
    assert cell.kinds == ["display_data", "display_data", "display_data", "stream"]
    assert cell.status == "ok"


def test_a_batch_with_variables(kernel: Kernel, server: Server) -> None:
    kernel.run("text = 'from python'; names = ['a', 'b']")
    cell = kernel.run('%%wap --to done\n- type: createFile\n  path: v.txt\n  content: "{{text}}: {{names}}"\n')
    assert cell.kinds == ["display_data"]
    assert (server.workspace / "v.txt").read_text() == "from python: ['a', 'b']"
    assert kernel.value("done.ok and done is _")
    kernel.run('%%wap --no-vars -q\n[{"type": "createFile", "path": "w.txt", "content": "{{text}}"}]')
    assert (server.workspace / "w.txt").read_text() == "{{text}}"


def test_the_text_of_a_cell(kernel: Kernel, server: Server) -> None:
    kernel.run("%%wap write -q t.txt\n# {{name}}\n\tone\n")
    assert (server.workspace / "t.txt").read_text() == "# {{name}}\n\tone\n"
    assert "two\n" in kernel.run("%%wap sh\ncd src\nls\necho two").text + "\n"


def test_dry_runs_and_atomic_ones(kernel: Kernel, server: Server) -> None:
    batch = "- {type: createFile, path: d.txt, content: x}\n- {type: readFile, path: nothing}\n"
    assert "d.txt" in kernel.run(f"%%wap --dry-run\n{batch}").text
    assert not (server.workspace / "d.txt").exists()
    kernel.run(f"%%wap --atomic\n{batch}")
    assert kernel.value("_.status") == "error"
    assert not (server.workspace / "d.txt").exists()


def test_quiet_shows_what_went_wrong_only(kernel: Kernel) -> None:
    assert kernel.run("%wap sh -q echo fine").outputs == []
    assert kernel.value("_.stdout") == "fine\n"
    assert "exit 3" in kernel.run("%wap sh -q exit 3").text
    assert "missing.txt" in kernel.run("%wap read -q missing.txt").text


# -- what goes wrong


def test_a_failure_is_shown_without_a_traceback(kernel: Kernel) -> None:
    for line in ("sh exit 3", "read missing.txt", "read .env", "frobnicate", "revert run_0000000000000000"):
        cell = kernel.run(f"%wap {line}")
        assert (cell.status, cell.kinds) == ("ok", ["display_data"]), cell.text
        assert "Traceback" not in cell.text
    assert kernel.value("_.data['code']") == "NOT_FOUND"


def test_a_mistake_in_a_batch_names_its_line(kernel: Kernel) -> None:
    cell = kernel.run("%%wap\n- type: message\n  content: x\n- type: shell\n")
    assert "line 4: operations[1].command: This field is required." in cell.text
    assert kernel.value("_.data['line']") == 4


@pytest.mark.parametrize(
    "code",
    [
        "%wap sh --raise exit 3",
        "%wap read --raise missing.txt",
        "%%wap --raise\n- type: nothing",
        "%%wap --raise\n- {type: deleteFile, path: missing.txt}",
        f"%wap sh --raise {ASKS}",
    ],
)
def test_raise_stops_run_all(kernel: Kernel, code: str) -> None:
    cell = kernel.run(code)
    assert cell.status == "error"
    assert cell.outputs[-1]["type"] == "error"
    assert "Traceback" not in cell.text and "wap_kernel" not in cell.text
    assert len(cell.outputs[-1]["traceback"]) == 1


def test_what_is_raised_is_cut(kernel: Kernel) -> None:
    kernel.run("long = 'x' * 4_000")
    cell = kernel.run('%%wap --raise -q\n- {type: shell, command: "false # {{long}}"}\n')
    failure = cell.outputs[-1]
    assert failure["ename"] == "ExecutionFailed"
    assert "more characters" in failure["evalue"] and len(failure["evalue"]) < 1_000
    assert "more characters" in failure["traceback"][0] and len(failure["traceback"][0]) < 2_000
    assert "%wap show run_" in failure["traceback"][0]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("write ../x.txt 'say --raise now'", "ok"),
        ("write ../x.txt 'say --raise now' --raise", "error"),
        ("frobnicate 'say --raise now'", "ok"),
        ("frobnicate --raise", "error"),
        ("frobnicate --raise 'never closed", "error"),
    ],
)
def test_a_text_that_speaks_of_raising_does_not_raise(kernel: Kernel, line: str, status: str) -> None:
    assert kernel.run(f"%wap {line}").status == status


def test_what_was_raised_can_be_caught(kernel: Kernel) -> None:
    kernel.run("from wap_kernel.errors import WapError")
    assert kernel.run("try:\n    %wap read --raise nothing\nexcept WapError as e:\n    c = e").status == "ok"
    assert kernel.value("c.code.value") == "FILE_NOT_FOUND"


# -- approvals


def test_a_question_is_answered_in_the_next_cell(kernel: Kernel) -> None:
    cell = kernel.run(f"%wap sh {ASKS}")
    run_id = kernel.value("_.run_id")
    assert f"%wap approve {run_id}" in cell.text
    assert cell.kinds == ["display_data"]
    assert run_id in kernel.run("%wap").text
    cell = kernel.run("%wap approve")
    assert cell.kinds == ["display_data"] and AGREED in cell.text
    assert kernel.value("[_.run_id, _.status]") == [run_id, "completed"]
    assert "Nothing waits for approval" in kernel.run("%wap approve").text


def test_a_denial_says_why(kernel: Kernel) -> None:
    kernel.run(f"%wap sh {ASKS}")
    assert "not on a Friday" in kernel.run("%wap deny not on a Friday").text
    assert not kernel.value("_.ok")


def test_the_person_at_the_keyboard_approves_the_cell(kernel: Kernel) -> None:
    cell = kernel.run(f"%%wap --yes\n- {{type: shell, command: {json.dumps(ASKS)}}}\n")
    assert AGREED in cell.text and kernel.value("_.ok")


@pytest.mark.parametrize(("decision", "ends"), [("approved", True), ("denied", False)])
def test_another_client_decides_while_the_cell_waits(kernel: Kernel, server: Server, decision: str, ends: bool) -> None:
    begun = kernel.start(f"%wap sh --wait 60 {ASKS}")
    run = waiting_run(server)
    kernel.until(begun, f"%wap approve {run['runId']}")
    sent = {"approvalId": run["pendingApproval"]["approvalId"], "decision": decision}
    ask(server, f"wap/runs/{run['runId']}/decision", sent)
    cell = kernel.finish(begun)
    assert cell.kinds == ["display_data"]
    assert "%wap approve" not in cell.text, "the question has been replaced"
    assert kernel.value("[_.status, _.ok]") == ["completed", ends]


def test_nobody_decides_in_time(kernel: Kernel) -> None:
    cell = kernel.run(f"%wap sh --wait 0.3 {ASKS}")
    assert "%wap approve" in cell.text
    assert kernel.value("_.status") == "awaiting_approval"


def test_always_is_remembered_until_it_is_revoked(kernel: Kernel) -> None:
    kernel.run(f"%wap sh {ASKS}")
    kernel.run("%wap approve --always -q")
    assert AGREED in kernel.run(f"%wap sh {ASKS}").text
    assert kernel.value("_.status") == "completed"
    kernel.run("%wap grants --to given -q")
    grant = kernel.value("given.data['grants'][0]['id']")
    kernel.run(f"%wap grants --revoke {grant}")
    kernel.run(f"%wap sh {ASKS}")
    assert kernel.value("_.status") == "awaiting_approval"


# -- stopping


@pytest.mark.parametrize("options", ["", "-q "])
def test_an_interrupt_cancels_the_run(kernel: Kernel, kernel_id: str, server: Server, options: str) -> None:
    begun = kernel.start(f"%wap sh -t 600 {options}echo begun; {NOT_OVER}")
    run = running_run(server)
    ask(server, f"api/kernels/{kernel_id}/interrupt", {})
    cell = kernel.finish(begun)
    assert cell.status == "error"
    assert cell.kinds == ["display_data", "error"]
    assert "cancelled" in cell.outputs[0]["data"]["text/plain"]
    assert cell.outputs[1]["traceback"] == ["KeyboardInterrupt: the run was cancelled."]
    assert ask(server, f"wap/runs/{run}")["status"] == "cancelled"
    assert kernel.run("%wap ls").status == "ok"


def test_an_interrupt_while_it_waits_for_approval(kernel: Kernel, kernel_id: str, server: Server) -> None:
    begun = kernel.start(f"%wap sh --wait 60 {ASKS}")
    run = waiting_run(server)["runId"]
    kernel.until(begun, f"%wap approve {run}")
    ask(server, f"api/kernels/{kernel_id}/interrupt", {})
    assert kernel.finish(begun).status == "error"
    assert ask(server, f"wap/runs/{run}")["status"] == "cancelled"


HOLD = """
import threading
from wap_kernel.client import watching
hands = get_ipython().magics_manager.registry["WapMagics"]._session.hands()
started, may_go = hands._backend.start, threading.Event()
def held(*arguments):
    print("held", flush=True)
    may_go.wait(60)
    return started(*arguments)
hands._backend.start = held
watching.STOP_SECONDS = 0.0
"""
LET_GO = """
may_go.set()
for thread in threading.enumerate():
    if thread.name in ("wap-start", "wap-stop"):
        thread.join(60)
"""


def test_an_interrupt_of_a_run_that_is_not_known_yet_says_so(server: Server) -> None:
    """And does not show the run before as if it were this one."""
    with kernel_of(server) as (kernel, kernel_id):
        kernel.run("%load_ext wap_kernel\n%wap sh echo of another cell")
        kernel.run(HOLD)
        begun = kernel.start(f"%wap sh -t 600 {NOT_OVER}")
        kernel.until(begun, "held")
        ask(server, f"api/kernels/{kernel_id}/interrupt", {})
        cell = kernel.finish(begun)
        assert cell.outputs[-1]["traceback"] == ["KeyboardInterrupt: it may still run, see %wap runs -s running."]
        assert "another cell" not in cell.text and "cancelled" not in cell.text
        kernel.run(LET_GO)
        assert kernel.value("hands.last.status") == "cancelled"


def test_a_run_that_cannot_be_cancelled_is_not_said_to_be(server: Server) -> None:
    with kernel_of(server) as (kernel, kernel_id):
        kernel.run("%load_ext wap_kernel\n%wap -q")
        kernel.run(
            "from wap_kernel.errors import ProviderUnavailable\n"
            'hands = get_ipython().magics_manager.registry["WapMagics"]._session.hands()\n'
            "cancel = hands._backend.cancel\n"
            "def gone(run_id): raise ProviderUnavailable('gone')\n"
            "hands._backend.cancel = gone"
        )
        begun = kernel.start(f"%wap sh -t 600 echo begun; {NOT_OVER}")
        kernel.until(begun, "| begun")
        ask(server, f"api/kernels/{kernel_id}/interrupt", {})
        cell = kernel.finish(begun)
        assert "it may still run" in cell.outputs[-1]["traceback"][0]
        assert "running" in cell.outputs[0]["data"]["text/plain"]
        assert kernel.value("cancel(hands.last.run_id)['status']") == "cancelled"


# -- completion


def test_completion_in_the_kernel(kernel: Kernel) -> None:
    kernel.be_patient()
    assert kernel.complete("%wap rea") == (["read"], "rea")
    assert kernel.complete("%wap read --li") == (["--lines"], "--li")
    assert kernel.complete("%wap read src/a") == (["src/app.py"], "src/a")
    assert kernel.complete("%wap read 'my") == (["'my notes.txt'"], "'my")
    assert kernel.complete("x = %wap read src/a") == (["src/app.py"], "src/a")
    assert kernel.complete("%%wap --dry") == (["--dry-run"], "--dry")
    kernel.run("%wap sh -q --to run true")
    run_id = kernel.value("run.run_id")
    assert run_id in kernel.complete("%wap show run_")[0]
    assert "src/app.py" not in kernel.complete("%%wap\n- type: src/a")[0]


def test_what_has_no_completion_gets_none_of_pythons(kernel: Kernel) -> None:
    kernel.be_patient()
    assert kernel.complete("%wap read prin") == (["prin"], "prin")
    assert kernel.complete("%wap read src/app.py ") == ([""], "")
    assert kernel.complete("%wapp")[0] == []
    assert "print" in kernel.complete("prin")[0]


# -- a new beginning


def test_a_restart_cancels_the_run_and_a_crash_does_not_hide_it(server: Server) -> None:
    with kernel_of(server) as (kernel, kernel_id):
        kernel.run("%load_ext wap_kernel")
        begun = kernel.start(f"%wap sh -t 600 echo begun; {NOT_OVER}")
        run = running_run(server)
        ask(server, f"api/kernels/{kernel_id}/restart", {})
        assert ask(server, f"wap/runs/{run}")["status"] == "cancelled"
        kernel.until(begun, f"{run} · cancelled")
        kernel.wait_for_ready()
        assert kernel.run("%wap").status == "error", "it begins anew"
        kernel.run("%load_ext wap_kernel")
        assert f"{run} · cancelled" in kernel.run("%wap show").text, "the server remembers"

        pid = kernel.value("__import__('os').getpid()")
        kernel.start(f"%wap sh -t 600 echo begun; {NOT_OVER}")
        run = running_run(server)
        os.kill(pid, signal.SIGKILL)
        _until_restarted(kernel, pid)
        kernel.run("%load_ext wap_kernel")
        assert "1 run under way, see %wap runs -s running" in kernel.run("%wap").text, "nobody has asked to end it"
        assert run in kernel.run("%wap runs -s running").text
        assert "cancelled" in kernel.run(f"%wap cancel {run}").text
        assert "under way" not in kernel.run("%wap").text


def _until_restarted(kernel: Kernel, before: int) -> None:
    """Jupyter sees within some seconds that a kernel has died, and starts another."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        kernel.wait_for_ready()
        if kernel.value("__import__('os').getpid()") != before:
            return
    raise AssertionError("it does not start again")


def test_unloading_leaves_nothing(server: Server) -> None:
    with kernel_of(server) as (kernel, _):
        kernel.run("%load_ext wap_kernel\n%wap sh -q true")
        assert kernel.run("%reload_ext wap_kernel\n%wap").kinds == ["execute_result"]
        kernel.run("%unload_ext wap_kernel")
        assert "not found" in kernel.run("%wap").text
        assert kernel.complete("%wap rea")[0] == []
