"""The root is the home folder: what a command of the preset `standard` can do to it, through the whole engine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.provider_workspace import CONFINING, skip_unless_works
from wap_kernel.policy import presets

SECRETS = (".ssh/id_rsa", ".aws/credentials", ".local/share/jupyter/runtime/jpserver-1.json", ".env", "keys/a.pem")
OBEYED = (".bashrc", ".jupyter/jupyter_server_config.py", ".ipython/profile_default/startup/0.py", ".gitconfig")
NEW = (
    *(".bash_profile", ".zshenv", ".Rprofile", ".local/bin/ls", ".config/git/config", ".config/autostart/x.desktop"),
    *(".netrc", ".kube/config", ".git/commondir", ".git/hooks/pre-commit", ".git/config.worktree"),
)
WRITE = """
import os, pathlib
for name in {names!r}:
    try:
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("planted")
        print(name)
    except OSError:
        pass
"""


@pytest.fixture(params=CONFINING)
def tools(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_tools: Callable[..., Any]
) -> Any:
    skip_unless_works(request.param)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(["git", "init", "-q", "--template=", str(home)], check=True)
    for name in (*SECRETS, *OBEYED):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("the secret" if name in SECRETS else "# as it was")
    (home / "link-to-secret").mkdir()
    (home / "link-to-secret" / ".env").symlink_to("../plain.txt")
    (home / "plain.txt").write_text("the secret")
    state = home / ".local/share/jupyter/wap/x"
    state.parent.mkdir(parents=True)
    return make_tools(home, state=state, policy=presets.load_preset("standard"), provider=request.param)


def run(tools: Any, script: str) -> dict[str, Any]:
    answer: dict[str, Any] = tools.executeCommand(command=f"python3 - <<'EOF'\n{script}\nEOF", timeout=60_000)
    return answer


def test_secrets_are_not_read(tools: Any) -> None:
    script = """
import os
for folder, _, names in os.walk(".", followlinks=True):
    for name in names:
        try:
            text = open(os.path.join(folder, name), errors="replace").read()
        except OSError:
            continue
        if "the secret" in text:
            print(folder, name)
"""
    assert run(tools, script)["stdout"] == ""
    (tools.root / "plain.txt").write_text("the secret")
    assert tools.executeCommand(command="cat link-to-secret/.env")["stdout"] == ""


def test_what_is_obeyed_is_not_changed(tools: Any) -> None:
    assert run(tools, WRITE.format(names=OBEYED))["stdout"] == ""
    assert {(tools.root / name).read_text() for name in OBEYED} == {"# as it was"}


def test_what_would_be_obeyed_and_was_not_there_is_refused(tools: Any) -> None:
    answer = run(tools, WRITE.format(names=NEW))
    assert [name for name in NEW if (tools.root / name).exists()] == []
    refused = [change["path"] for change in answer["refusedChanges"]]
    written = answer["stdout"].split()
    assert all(any(name == path or name.startswith(f"{path}/") for path in refused) for name in written), refused
    assert "commondir" in answer["stderr"] or "not applied" in answer["stderr"]
    status = subprocess.run(["git", "status"], cwd=tools.root, capture_output=True, text=True, check=False)
    assert status.returncode == 0, status.stderr
