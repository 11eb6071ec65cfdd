"""The `wap` kernel as a real Jupyter server starts it: it finds that server, whose policy, approvals and audit hold."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from scripts.demo import Server
from tests.support.server_processes import start_demo
from tests.support.wap_kernels import KERNELSPEC, SECONDS, Talk
from wap_kernel.model.caller import name_os_user

HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(server: Server, method: str, route: str, body: object = None, **headers: str) -> Any:
    request = urllib.request.Request(
        server.url + route,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json", **headers},
    )
    with HTTP.open(request, timeout=SECONDS) as response:
        return json.loads(response.read() or "null")


def wait_for(client: BlockingKernelClient) -> None:
    """A client that has not started the kernel itself takes a slow one for dead."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return client.wait_for_ready(timeout=SECONDS)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise


@contextmanager
def started(server: Server) -> Iterator[tuple[Talk, str]]:
    """A kernel that the server has started, by this repository's kernelspec."""
    kernels = Path(server.environment["JUPYTER_DATA_DIR"], "kernels")
    kernels.mkdir(parents=True, exist_ok=True)
    if not (kernels / "wap").exists():
        (kernels / "wap").symlink_to(KERNELSPEC)
    kernel = ask(server, "POST", "api/kernels", {"name": "wap"})["id"]
    client = BlockingKernelClient()
    client.load_connection_file(str(Path(server.environment["JUPYTER_RUNTIME_DIR"], f"kernel-{kernel}.json")))
    client.start_channels()
    try:
        wait_for(client)
        yield Talk(client), kernel
    finally:
        client.stop_channels()
        ask(server, "DELETE", f"api/kernels/{kernel}")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """It does not kill a kernel that needs long to end: the run of its cell would not be cancelled."""
    with start_demo(KernelManager={"shutdown_wait_time": SECONDS}) as running:
        yield running


def test_the_kernelspec_has_a_logo_and_starts_nothing_from_the_folder(server: Server) -> None:
    with started(server):
        spec = ask(server, "GET", "api/kernelspecs")["kernelspecs"]["wap"]
    assert set(spec["resources"]) == {"logo-32x32", "logo-64x64", "logo-svg"}
    assert spec["spec"]["argv"][1:4] == ["-I", "-m", "wap_kernel.notebook.kernel"]


def test_it_works_on_the_servers_workspace_and_audit(server: Server) -> None:
    with started(server) as (talk, _):
        said = talk.run("write from-kernel.txt hello")
    assert said.reply["status"] == "ok"
    assert (server.workspace / "from-kernel.txt").read_text() == "hello"
    assert "from-kernel.txt" in json.dumps(ask(server, "GET", "wap/audit?limit=5"))


def test_somebody_else_approves_while_the_cell_waits(server: Server) -> None:
    (server.workspace / "old").mkdir()
    with started(server) as (talk, _):
        request = talk.begin("sh --wait 60 rm -r old")
        published = talk.published(request)
        next(message for message in published if "approve run_" in json.dumps(message[1]))  # first it may run
        (run,) = ask(server, "GET", "wap/runs?status=awaiting_approval")["runs"]
        decision = {"approvalId": run["pendingApproval"]["approvalId"], "decision": "approved"}
        ask(server, "POST", f"wap/runs/{run['runId']}/decision", decision)
        shown = list(published)
        assert talk.reply(request)["status"] == "ok"
    assert "completed" in shown[-1][1]["data"]["text/plain"]
    assert not (server.workspace / "old").exists()


def test_an_agent_that_waits_is_named_below_the_next_cell_and_shown_before_it_is_approved(server: Server) -> None:
    (server.workspace / "old").mkdir()
    operation = {"type": "shell", "command": "rm -r old"}
    with started(server) as (talk, _):
        run = ask(
            server,
            "POST",
            "wap/runs?wait=30",
            {"protocolVersion": "1.0", "operations": [operation]},
            **{"X-Wap-Agent": "helper"},
        )
        shown = talk.run("ls\nruns -q")
        assert shown.kinds == ["display_data", "display_data"]
        waiting = f"helper, for {name_os_user()} waits to run rm -r old, which deletes 1 folder"
        assert f"{waiting}, see show {run['runId']}" in shown.texts[1]
        assert "run the same line again" in talk.run("approve").text
        assert (server.workspace / "old").exists()
        assert "done    run rm -r old" in talk.run("approve").text
    assert not (server.workspace / "old").exists()


@pytest.mark.parametrize("how", ["interrupt", "restart"])
def test_the_run_of_a_cell_ends_with_it(server: Server, how: str) -> None:
    with started(server) as (talk, kernel):
        request = talk.begin("sh -t 600 sleep 1000")
        next(talk.published(request))
        ask(server, "POST", f"api/kernels/{kernel}/{how}")
        if how == "interrupt":
            assert talk.reply(request)["ename"] == "KeyboardInterrupt"
        newest = ask(server, "GET", "wap/runs?limit=1")["runs"][0]
        assert newest["status"] == "cancelled"
        wait_for(talk.client)
        assert talk.run("ls").reply["status"] == "ok"


def test_a_server_without_a_sandbox_gets_no_commands_from_this_kernel() -> None:
    """There a person would be asked, and the person is who wrote the command."""
    with start_demo(WapExtension={"provider": "local"}) as server, started(server) as (talk, _):
        said = talk.run("sh --yes touch made")
        assert said.reply["ename"] == "PROVIDER_UNAVAILABLE"
        assert "sandbox" in said.reply["evalue"]
        assert talk.run("- type: shell\n  command: touch made\n").reply["ename"] == "PROVIDER_UNAVAILABLE"
        assert not (server.workspace / "made").exists()
        assert talk.run("write made.txt x").reply["status"] == "ok"


def test_an_administrator_may_allow_them() -> None:
    traits = {"provider": "local", "allow_unconfined": True}
    with start_demo(WapExtension=traits) as server, started(server) as (talk, _):
        assert talk.run("sh --yes touch made").reply["status"] == "ok"
        assert (server.workspace / "made").exists()
