"""bubblewrap for somebody who is not root, where the tests themselves run as root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import wap_kernel
from tests.support.provider_workspace import skip_unless_works

AS_SOMEBODY = """
import json, os, sys, tempfile
import jupyter_core.paths, psutil
from pathlib import Path
from tests.support.provider_workspace import Scene
from wap_kernel.providers import bubblewrap
os.setgroups([]); os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321)
folder = Path(sys.argv[1])
(folder / ".git/hooks").mkdir(parents=True)
(folder / ".env").write_text("the secret")
scene = Scene("bubblewrap", folder)
outcome = scene.run(
    "id -u; cat .env; touch made .git/hooks/x; mv .git x; echo $?; head -c 3000 /proc/1/environ | grep -c s3cret;"
    " unshare -U true 2>/dev/null || echo none; (setsid sleep 1000 &) ; exit 9",
    hidden=(".env",), read_only=(".git/hooks",), pinned=(".git",),
)
scene.close()
print(json.dumps([outcome.stdout, outcome.exit_code, bubblewrap.probe().promises]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_as_somebody_who_is_not_root() -> None:
    skip_unless_works("bubblewrap")
    repository = Path(wap_kernel.__file__).parents[1]
    with tempfile.TemporaryDirectory(prefix="wap-somebody-") as name:
        copied = Path(name)
        copied.chmod(0o755)
        for part in ("wap_kernel", "tests"):
            shutil.copytree(repository / part, copied / part, ignore=shutil.ignore_patterns("__pycache__"))
        workspace = copied / "ws"
        workspace.mkdir()
        os.chown(workspace, 54321, 54321)
        done = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY, str(workspace)],
            cwd=copied,
            env={"PATH": "/usr/bin:/bin", "HOME": str(workspace), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        stdout, exit_code, promises = json.loads(done.stdout)
        assert (stdout, exit_code) == ("54321\n1\n0\nnone\n", 9)
        assert promises["files outside"]
        assert (workspace / "made").stat().st_uid == 54321
        assert os.listdir(workspace / ".git/hooks") == []
