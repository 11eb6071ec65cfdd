"""A workspace in which another file system is mounted, as a shared folder in a home often is: guarded like the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wap_kernel
from tests.support.provider_workspace import CONFINING, LONG, skip_unless_works

MOUNTED = """
import json, subprocess, sys
from pathlib import Path
from tests.support.provider_workspace import Scene
name, folder = sys.argv[1], Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "none", folder / "shared"], check=True)
for file in (".env", "settings", "plain"):
    (folder / "shared" / file).write_text(file)
scene = Scene(name, folder)
outcome = scene.run(
    "cat shared/.env /workspace/shared/.env; echo x > shared/settings; echo x > /workspace/shared/settings;"
    " mv /workspace/shared /workspace/away; cat shared/settings /workspace/shared/plain; touch /workspace/shared/made",
    hidden=("shared/.env",), read_only=("shared/settings",),
)
scene.close()
print(json.dumps([outcome.stdout, sorted(path.name for path in (folder / "shared").iterdir())]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("name", CONFINING)
def test_a_file_system_in_the_workspace(name: str, tmp_path: Path) -> None:
    skip_unless_works(name)
    (tmp_path / "ws/shared").mkdir(parents=True)
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", MOUNTED, name, str(tmp_path / "ws")],
        cwd=Path(wap_kernel.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["settingsplain", [".env", "made", "plain", "settings"]]
    assert list((tmp_path / "ws/shared").iterdir()) == []
