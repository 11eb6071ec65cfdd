"""`%wap` where no server with the extension has started the kernel, and in a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_client.manager import KernelManager

from tests.support.python_kernels import Kernel, connected
from tests.support.scripted_server import Handler, serving
from tests.support.server_processes import start_demo
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.notebook.magics import magics

LOAD = """
import IPython, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.perf_counter()
shell.run_line_magic("load_ext", "wap_kernel")
print(1000 * (time.perf_counter() - began))
"""

FIRST_COMPLETION = """
import sys, threading
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "wap_kernel")
from wap_kernel.notebook.magics import magics
may_load = threading.Event()
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "wap_kernel.notebook.magics.session":
            assert may_load.wait(30)
sys.meta_path.insert(0, Slow())
def complete():
    with provisionalcompleter():
        return [found.text for found in shell.Completer.completions("%wap re", 7)]
print(complete())
may_load.set()
magics.TAB_SECONDS = 30.0
print(complete())
"""


def environment(base: Path) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER", "WAP_"))}
    folders = {name: str(base / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    return {**mine, **folders, "JUPYTER_RUNTIME_DIR": str(base / "runtime")}


@contextmanager
def kernel_in(base: Path, **more: str) -> Iterator[tuple[Kernel, KernelManager]]:
    (base / "ws").mkdir(exist_ok=True)
    manager = KernelManager(connection_file=str(base / "kernel.json"))
    manager.start_kernel(
        env={**environment(base), **more}, cwd=str(base / "ws"), extra_arguments=["--IPKernelApp.log_level=ERROR"]
    )
    try:
        with connected(Path(manager.connection_file)) as kernel:
            assert kernel.run("%load_ext wap_kernel").outputs == []
            yield kernel, manager
    finally:
        manager.shutdown_kernel(now=True)


# -- the embedded engine


def test_without_a_server_the_embedded_engine_serves(tmp_path: Path) -> None:
    with kernel_in(tmp_path) as (kernel, manager):
        assert "no server" in kernel.run("%wap").text
        assert kernel.value("_.data['endpoint']['kind']") == "embedded"
        assert kernel.run("%%wap write made.txt\nhello\n").kinds == ["display_data"]
        assert (tmp_path / "ws" / "made.txt").read_text() == "hello\n"
        assert kernel.run("%wap read made.txt").kinds == ["execute_result"]
        assert "%wap approve" in kernel.run("%wap sh rm -rf none").text
        assert "done    run rm -rf none" in kernel.run("%wap approve").text
        kernel.be_patient()
        assert kernel.complete("%wap read ma") == (["made.txt"], "ma")
        _interrupt(kernel, manager)
        assert kernel.run("%wap sh -q true").outputs == []


def _interrupt(kernel: Kernel, manager: KernelManager) -> None:
    """Interrupt the kernel as Jupyter does, by a signal to its whole process group.

    The command must not be in that group, or it would end before the run is cancelled.
    """
    begun = kernel.start("%wap sh -t 600 echo begun; sleep 1000")
    kernel.until(begun, "| begun")
    os.killpg(os.getpgid(manager.provisioner.pid), signal.SIGINT)
    cell = kernel.finish(begun)
    assert cell.kinds == ["display_data", "error"]
    assert "cancelled" in cell.outputs[0]["data"]["text/plain"]


# -- servers that do not answer


def test_a_server_that_is_named_is_never_replaced(tmp_path: Path) -> None:
    with kernel_in(tmp_path, WAP_URL="http://127.0.0.1:9/", WAP_TOKEN="t") as (kernel, _):
        for _ in range(2):
            cell = kernel.run("%wap write made.txt hello")
            assert cell.kinds == ["display_data"]
            assert "127.0.0.1:9" in cell.text
        assert not (tmp_path / "ws" / "made.txt").exists()
        assert kernel.run("%wap help").status == "ok", "which needs no server"


def test_a_server_that_goes_away_is_not_replaced_by_this_process(tmp_path: Path) -> None:
    """A wider policy might be that of this process."""
    with start_demo() as server:
        announced = Path(server.environment["JUPYTER_RUNTIME_DIR"]) / f"jpserver-{server.pid}.json"
        runtime = tmp_path / "runtime"
        runtime.mkdir(mode=0o700)
        (runtime / announced.name).write_text(announced.read_text())
        with kernel_in(tmp_path) as (kernel, _):
            kernel.run(f"import os; os.environ['JPY_PARENT_PID'] = '{server.pid}'")
            kernel.run("%wap -q")
            assert kernel.value("_.data['endpoint']['kind']") == "server"
            os.kill(server.pid, 15)
            (runtime / announced.name).unlink()
            _until_gone(server.url)
            for _ in range(2):
                assert kernel.run("%wap write made.txt hello").kinds == ["display_data"]
                assert kernel.value("_.data['code']") == "PROVIDER_UNAVAILABLE"
            assert not (tmp_path / "ws" / "made.txt").exists()


def _until_gone(url: str) -> None:
    import socket
    import time
    from urllib.parse import urlsplit

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise AssertionError("the server does not stop")


def test_the_first_completion_does_not_wait_until_all_is_loaded() -> None:
    """The machine may be busy."""
    assert _python(FIRST_COMPLETION).splitlines() == ["['re']", "['read', 'revert']"]


def test_completion_waits_for_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes until there is one."""
    from wap_kernel.client import workspace_client
    from wap_kernel.notebook.language import completion
    from wap_kernel.notebook.magics.session import Session

    may_go = threading.Event()

    def connect() -> workspace_client.WorkspaceClient:
        may_go.wait(30)
        raise ProviderUnavailable("nobody answers")

    monkeypatch.setattr(workspace_client, "connect", connect)
    monkeypatch.setattr(completion, "PATIENCE", 60.0)
    session = Session(cast(Any, None))  # a shell is not needed for it
    assert session.completer.complete("read a", 6).matches == []
    assert any(thread.name == "wap-connecting" for thread in threading.enumerate()), "while it is looked for"
    may_go.set()


class Held:
    """A server that has wap, and says what is in a folder when it is let go."""

    def __init__(self) -> None:
        self.may_go = threading.Event()

    def __call__(self, handler: Handler) -> None:
        if handler.command == "GET":
            handler.say(404, b'{"error": "No.", "code": "NOT_FOUND"}')
            return
        assert self.may_go.wait(120)
        handler.say(200, b'{"files": [{"path": "app.py", "isDirectory": false}], "totalCount": 1}')


def test_completion_waits_for_no_answer_and_has_it_next(tmp_path: Path) -> None:
    """The deadline is that of the whole: what is asked for is still under way when the completion has come."""
    assert magics.TAB_SECONDS <= 0.15
    held = Held()
    with serving(held) as server, kernel_in(tmp_path, WAP_URL=server.url, WAP_TOKEN="t") as (kernel, _):
        kernel.run('client = get_ipython().magics_manager.registry["WapMagics"]._session.client()')
        names = "[t.name for t in __import__('threading').enumerate()]"
        for _ in range(2):
            assert kernel.complete("%wap read a") == (["a"], "a")
            assert kernel.value(names).count("wap-asking") == 1
        held.may_go.set()
        kernel.run("for t in __import__('threading').enumerate():\n    if t.name == 'wap-asking': t.join(60)")
        assert kernel.complete("%wap read a") == (["app.py"], "a")
        assert [seen[0] for seen in server.seen].count("POST") == 1


def test_what_it_needs_is_loaded_when_the_cell_is_done(tmp_path: Path) -> None:
    """So that the first Tab does not wait for it; `test_loading_imports_nothing_large` shows that loading does not."""
    with kernel_in(tmp_path) as (kernel, _):
        kernel.run("for t in __import__('threading').enumerate():\n    if t.name == 'wap-loading': t.join(60)")
        loaded = kernel.value("[name for name in __import__('sys').modules if name.startswith('wap_kernel')]")
        assert {f"wap_kernel.{name}" for name in magics._LOADED} <= set(loaded)
        assert "wap_kernel.client.embedded_backend" not in loaded, "which nobody may need"


# -- other places than a notebook


@pytest.mark.parametrize("line", ["echo hel''lo", "sleep 0.6; echo hel''lo"], ids=["at once", "after progress"])
def test_captured_output_is_captured(tmp_path: Path, line: str) -> None:
    with kernel_in(tmp_path) as (kernel, _):
        assert kernel.run(f"%%capture kept\n%wap sh {line}").outputs == []
        # A command that takes a while shows its progress first, and the result as an update of it.
        captured = kernel.value("' '.join(output.data.get('text/plain', '') for output in kept.outputs)")
        assert "hello" in captured


def test_a_terminal_has_lines(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    lines = [
        "%load_ext wap_kernel",
        "%wap write a.txt hello",
        "_.files",
        "%wap sh echo 'one\\e[31m two'; echo -e '\\e[31mred'",
        "%wap read missing.txt",
        "%wap sh rm -rf none",
        "%wap sh --raise false",
        "found = %wap ls",
        "list(found)",
    ]
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--no-banner",
        "--simple-prompt",
        "--colors=NoColor",
        "--no-confirm-exit",
    ]
    done = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        cwd=tmp_path / "ws",
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout
    assert "ok      createFile a.txt (5 bytes)" in said
    assert ": completed" in said
    assert "['a.txt']" in said
    assert "\x1b" not in said and "\\x1b[31mred" in said
    assert "No such file or folder: missing.txt" in said
    assert "%wap approve run_" in said
    assert "ExecutionFailed: " in said and "Traceback" not in said + done.stderr


def test_loading_takes_no_time() -> None:
    """Of several times the shortest: the others tell how busy the machine is."""
    assert any(float(_python(LOAD)) < 60 for _ in range(20))


def test_loading_imports_nothing_large() -> None:
    listed = _python(LOAD + "import sys; print(*sys.modules)")
    for module in (
        "pydantic",
        "yaml",
        "http.client",
        "ssl",
        "jupyter_server",
        "wap_kernel.client",
        "wap_kernel.notebook.language",
    ):
        assert module not in listed.split()


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(autouse=True)
def _no_server_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAP_URL", "WAP_TOKEN", "JUPYTERHUB_SERVICE_URL"):
        monkeypatch.delenv(name, raising=False)
