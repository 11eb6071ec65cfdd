"""Interrupted cells, and kernels that end or restart."""

from __future__ import annotations

import os
import signal
import time

import pytest

from scripts.demo import Server
from tests.support.python_kernels import ASKS, NOT_OVER, SECONDS, Kernel, ask, kernel_of, running_run, waiting_run

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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sh touch never", "no run was started"),
        ("search x", "no run was started"),
        ("cancel last", "the request may have been executed"),
    ],
)
def test_an_interrupt_before_anything_has_begun_is_told_in_a_line(
    kernel: Kernel, kernel_id: str, server: Server, line: str, said: str
) -> None:
    """While the server is looked for, or does not answer."""
    kernel.run(HELD_BEFORE)
    begun = kernel.start(f"%wap {line}")
    kernel.until(begun, "held")
    ask(server, f"api/kernels/{kernel_id}/interrupt", {})
    cell = kernel.finish(begun)
    kernel.run("session.client = found")
    assert (cell.status, cell.outputs[-1]["traceback"]) == ("error", [f"KeyboardInterrupt: {said}."])
    assert not (server.workspace / "never").exists()
    assert kernel.run("%wap ls").status == "ok"


HELD_BEFORE = """
import threading
session = get_ipython().magics_manager.registry["WapMagics"]._session
found = session.client
def held():
    print("held", flush=True)
    threading.Event().wait(60)
session.client = held
"""
HOLD = """
import threading
from wap_kernel.client import run_tracker
client = get_ipython().magics_manager.registry["WapMagics"]._session.client()
started, may_go = client._backend.start, threading.Event()
def held(*arguments):
    print("held", flush=True)
    may_go.wait(60)
    return started(*arguments)
client._backend.start = held
run_tracker.STOP_SECONDS = 0.0
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
        assert cell.outputs[-1]["traceback"] == [
            "KeyboardInterrupt: the run may still be going on, see %wap runs -s running."
        ]
        assert "another cell" not in cell.text and "cancelled" not in cell.text
        kernel.run(LET_GO)
        assert kernel.value("client.last.status") == "cancelled"


def test_a_run_that_cannot_be_cancelled_is_not_said_to_be(server: Server) -> None:
    with kernel_of(server) as (kernel, kernel_id):
        kernel.run("%load_ext wap_kernel\n%wap -q")
        kernel.run(
            "from wap_kernel.model.errors import ProviderUnavailable\n"
            'client = get_ipython().magics_manager.registry["WapMagics"]._session.client()\n'
            "cancel = client._backend.cancel\n"
            "def gone(run_id): raise ProviderUnavailable('gone')\n"
            "client._backend.cancel = gone"
        )
        begun = kernel.start(f"%wap sh -t 600 echo begun; {NOT_OVER}")
        kernel.until(begun, "| begun")
        ask(server, f"api/kernels/{kernel_id}/interrupt", {})
        cell = kernel.finish(begun)
        assert "the run may still be going on" in cell.outputs[-1]["traceback"][0]
        assert "running" in cell.outputs[0]["data"]["text/plain"]
        assert kernel.value("cancel(client.last.run_id)['status']") == "cancelled"


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
