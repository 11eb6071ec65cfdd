"""Use a server with the standard library alone, and with `jupyter_core` to find the server of the kernel."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripted_server import serving
from tests.support.server_processes import TOKEN, LiveServer

ROOT = Path(__file__).resolve().parents[3]
ALLOWED = ("jupyter_core", "platformdirs", "traitlets")
"""Packages for discovery: `jupyter_core`, which every kernel has, and what it needs."""
PROGRAM = """
import json, sys
from wap_kernel import connect
from wap_kernel.model.errors import WapError
ws = connect()
written = ws.write("alone.txt", "hello\\n")
try:
    ws.read("missing.txt")
except WapError as error:
    missing = error.code.value
results = [ws.overview(), ws.ls(), ws.read("alone.txt"), ws.search("hel"), ws.runs(), ws.show(), ws.policy()]
results += [written, ws.audit(), ws.check([{"type": "shell", "command": "ls"}]), ws.grants()]
bundles = [result._repr_mimebundle_() for result in results]
undone = ws.revert("last")
files = {name.split(".")[0]: getattr(module, "__file__", "") or "" for name, module in sys.modules.items()}
print(json.dumps({
    "kind": ws.endpoint.kind, "reason": ws.endpoint.reason, "ok": written.ok and undone.ok, "missing": missing,
    "html": all(bundle["text/html"] for bundle in bundles),
    "packages": sorted(name for name, file in files.items() if file.startswith(sys.argv[-1])),
}))
ws.close()
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the allowed packages and no others."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in ALLOWED:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations is not None
        (folder / name).symlink_to(spec.submodule_search_locations[0])
    return folder


def _run_alone(program: str, *folders: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter without installed packages, with only these folders to import from."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "WAP_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = sys.argv[1:]\n{program}", *map(str, folders)],
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_server_is_found_and_used(server: LiveServer, packages: Path) -> None:
    done = _run_alone(PROGRAM, ROOT, packages, JPY_PARENT_PID=str(server.process.pid))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    loaded = report.pop("packages")
    expected = {"kind": "server", "reason": "it started this kernel", "ok": True, "missing": "FILE_NOT_FOUND"}
    assert report == {**expected, "html": True}
    assert "jupyter_core" in loaded and set(loaded) <= set(ALLOWED)
    assert not (server.root / "alone.txt").exists()


def test_no_other_package_can_be_imported(packages: Path) -> None:
    """The test above would prove nothing otherwise."""
    assert "No module named" in _run_alone("import pydantic", ROOT, packages).stderr
    assert "No module named" in _run_alone("import jupyter_core", ROOT).stderr


def test_a_hub_and_a_named_server_need_no_package() -> None:
    program = "from wap_kernel import connect; connect()"
    with serving(lambda handler: handler.say(403, b"")) as served:
        hub = {"JUPYTERHUB_SERVICE_URL": served.url, "JUPYTERHUB_API_TOKEN": TOKEN, "JUPYTERHUB_SERVICE_PREFIX": "/b/"}
        for environ in ({"WAP_URL": served.url}, hub):
            assert "Unauthenticated" in _run_alone(program, ROOT, **environ).stderr
        assert len(served.seen) == 2
