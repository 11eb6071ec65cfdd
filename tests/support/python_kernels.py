"""A Python kernel that a server has started, and the outputs of its cells as a saved notebook would have them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.error import HTTPError

from jupyter_client.blocking.client import BlockingKernelClient

from scripts.demo import Server

SECONDS = 60
"""What anything may take at most."""
ASKS = "rm -rf none"
"""A deletion of folders, about which the standard policy asks."""
AGREED = f"done    run {ASKS}"
"""The line of the card when it was approved."""
NOT_OVER = "sleep 1000"
NOTEBOOK = "Größe.ipynb"
"""The notebook of the kernels, by a name that is not Latin-1 in UTF-8."""


def ask(server: Server, path: str, sent: dict[str, Any] | None = None, method: str | None = None) -> Any:
    """The server's answer to another client, a person's."""
    data = None if sent is None else json.dumps(sent).encode()
    request = urllib.request.Request(server.url + path, data, method=method)
    request.add_header("Authorization", f"token {server.token}")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def waiting_run(server: Server) -> dict[str, Any]:
    """The run that waits for approval, once there is one."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if runs := ask(server, "wap/runs?status=awaiting_approval")["runs"]:
            return dict(runs[0])
        time.sleep(0.02)
    raise AssertionError("no run waits")


def running_run(server: Server) -> str:
    """The run whose first command has written something, once there is one."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for run in ask(server, "wap/runs?status=running")["runs"]:
            if ask(server, f"wap/runs/{run['runId']}/output/op-1")["content"]:
                return str(run["runId"])
        time.sleep(0.02)
    raise AssertionError("nothing runs")


@dataclass
class Cell:
    """What a cell has sent so far."""

    status: str = ""
    reply: dict[str, Any] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    updates: int = 0
    """How often a display was drawn again."""
    _displays: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that is to be read, without rich forms."""
        return "\n".join(
            output.get("text") or "\n".join(output.get("traceback", [])) or output.get("data", {}).get("text/plain", "")
            for output in self.outputs
        )

    @property
    def kinds(self) -> list[str]:
        return [output["type"] for output in self.outputs]

    def take(self, kind: str, content: dict[str, Any]) -> None:
        display = content.get("transient", {}).get("display_id")
        if kind == "update_display_data":
            self.updates += 1
            self.outputs[self._displays[display]]["data"] = content["data"]
            return
        if display is not None:
            self._displays[display] = len(self.outputs)
        self.outputs.append({"type": kind, **content})


class Kernel:
    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def start(self, code: str, *, has_person: bool = False) -> tuple[str, Cell]:
        """Send a cell, and return without waiting for it; `has_person`: the front end answers input requests."""
        return self._client.execute(code, allow_stdin=has_person), Cell()

    def press(self, cell: Cell, label: str) -> None:
        """Press a button of the cell, and wait until the kernel has done what it does."""
        opened = [output for output in cell.outputs if output["type"] == "comm_open"]
        models = {one["data"]["state"].get("description"): one["comm_id"] for one in opened}
        content = {"comm_id": models[label], "data": {"method": "custom", "content": {"event": "click"}}}
        message = self._client.session.msg("comm_msg", content)
        self._client.shell_channel.send(message)
        self.until((message["header"]["msg_id"], cell), None)

    def finish(self, begun: tuple[str, Cell]) -> Cell:
        sent, cell = begun
        self.until(begun, None)
        reply = self._client.get_shell_msg(timeout=SECONDS)
        while reply["parent_header"].get("msg_id") != sent:
            reply = self._client.get_shell_msg(timeout=SECONDS)
        cell.reply = reply["content"]
        cell.status = cell.reply["status"]
        return cell

    def until(self, begun: tuple[str, Cell], text: str | None) -> None:
        """Until the cell shows `text`; None: until it is idle."""
        sent, cell = begun
        deadline = time.monotonic() + SECONDS
        while text is None or text not in cell.text:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"the cell does not end; it shows: {cell.text}") from None
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                assert text is None, cell.text
                return
            if kind not in ("status", "execute_input"):
                cell.take(kind, content)

    def run(self, code: str) -> Cell:
        return self.finish(self.start(code))

    def value(self, expression: str) -> Any:
        """What Python has for it, by way of JSON."""
        cell = self.run(f"import json; print(json.dumps({expression}))")
        assert cell.status == "ok", cell.text
        return json.loads(cell.text)

    def complete(self, code: str) -> tuple[list[str], str]:
        """The matches, and what they replace."""
        answer = self._client.complete(code, reply=True, timeout=SECONDS)["content"]
        return list(answer["matches"]), code[answer["cursor_start"] : answer["cursor_end"]]

    def be_patient(self) -> None:
        """How busy the machine is does not matter to what completes, nor that it is the first thing asked for."""
        self.run("from wap_kernel.notebook.magics import magics; magics.TAB_SECONDS = 30.0\n%wap -q")

    def wait_for_ready(self) -> None:
        """Until it answers on both channels. The client's own method takes a kernel that starts slowly for dead."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            asked = self._client.kernel_info()
            try:
                self._client.get_shell_msg(timeout=1)
                # Of this question: there may be words left of a kernel that was there before.
                while self._client.get_iopub_msg(timeout=1)["parent_header"].get("msg_id") != asked:
                    pass
                return
            except Empty:
                continue
        raise AssertionError("the kernel does not start")


NOT_FOUND = 404


@contextmanager
def kernel_of(server: Server) -> Iterator[tuple[Kernel, str]]:
    """A kernel that the server started for a notebook, and its id there.

    Messages go past the server; the kernel cannot tell.
    """
    notebook = {"path": NOTEBOOK, "name": NOTEBOOK, "type": "notebook", "kernel": {"name": "python3"}}
    session = ask(server, "api/sessions", notebook)
    kernel_id = str(session["kernel"]["id"])
    try:
        runtime = Path(server.environment["JUPYTER_RUNTIME_DIR"])
        with connected(runtime / f"kernel-{kernel_id}.json") as kernel:
            yield kernel, kernel_id
    finally:
        try:
            ask(server, f"api/sessions/{session['id']}", method="DELETE")
        except HTTPError as error:
            if error.code != NOT_FOUND:  # a test may have ended the session with its kernel
                raise


@contextmanager
def connected(connection_file: Path) -> Iterator[Kernel]:
    client = BlockingKernelClient(connection_file=str(connection_file))
    client.load_connection_file()
    client.start_channels(hb=False)
    try:
        kernel = Kernel(client)
        kernel.wait_for_ready()
        yield kernel
    finally:
        client.stop_channels()
