"""A program without a single package of others can use a server: the client needs the standard library alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.scripted_server import serving
from tests.support.server_processes import TOKEN, LiveServer

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from wap_kernel import connect
from wap_kernel.model.errors import WapError
ws = connect()
made = ws.write("alone.txt", "hello\\n")
try:
    ws.read("missing.txt")
except WapError as error:
    missing = error.code.value
shown = [ws.overview(), ws.ls(), ws.read("alone.txt"), ws.search("hel"), ws.runs(), ws.show(), ws.policy(), ws.audit()]
shown += [made, ws.check([{"type": "shell", "command": "ls"}]), ws.grants()]
bundles = [answer._repr_mimebundle_() for answer in shown]
undone = ws.revert("last")
others = [name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or "")]
print(json.dumps({
    "kind": ws.endpoint.kind, "reason": ws.endpoint.reason, "ok": made.ok and undone.ok, "missing": missing,
    "html": all(bundle["text/html"] for bundle in bundles), "others": others,
}))
ws.close()
"""


def _alone(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """In an interpreter that has no packages installed at all."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "WAP_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", program, str(ROOT)],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_server_is_found_and_used(server: LiveServer) -> None:
    done = _alone(PROGRAM, JPY_PARENT_PID=str(server.process.pid))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = {"kind": "server", "reason": "it started this kernel", "ok": True, "missing": "FILE_NOT_FOUND"}
    assert told == {**expected, "html": True, "others": []}
    assert not (server.root / "alone.txt").exists()


def test_there_are_no_packages_in_it() -> None:
    """Or the test above would show nothing."""
    assert "No module named" in _alone("import pydantic").stderr


def test_a_hub_and_a_name_need_no_more() -> None:
    ask = "import sys; sys.path.insert(0, sys.argv[1]); from wap_kernel import connect; connect()"
    with serving(lambda handler: handler.say(403, b"")) as served:
        hub = {"JUPYTERHUB_SERVICE_URL": served.url, "JUPYTERHUB_API_TOKEN": TOKEN, "JUPYTERHUB_SERVICE_PREFIX": "/b/"}
        for environ in ({"WAP_URL": served.url}, hub):
            assert "Unauthenticated" in _alone(ask, **environ).stderr
        assert len(served.seen) == 2
