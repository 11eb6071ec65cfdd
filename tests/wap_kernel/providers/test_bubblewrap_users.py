"""bubblewrap for an ordinary user, where the tests themselves run as root."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.agent_server import ORDINARY
from tests.support.ordinary_user import open_user_folder, run_python, run_tests
from tests.support.provider_workspace import skip_unless_works

HERE = Path(__file__).parent
SCRIPT = """
import json, sys
from pathlib import Path
from tests.support.layer_workspace import describe
from tests.support.provider_workspace import Scene
from wap_kernel.providers import bubblewrap
folder = Path(sys.argv[1])
(folder / "ws/.git/hooks").mkdir(parents=True)
(folder / "ws/.env").write_text("the secret")
scene = Scene("bubblewrap", folder / "ws", state=folder / "state")
guards = dict(hidden=(".env",), read_only=(".git/hooks",), pinned=(".git",))
command = (
    "id -u; cat .env; touch made .git/hooks/x; mv .git x; echo $?; head -c 3000 /proc/1/environ | grep -c s3cret;"
    " unshare -U true 2>/dev/null || echo none; (setsid sleep 1000 &) ; exit 9"
)
outcome, changes = scene.run_on_layer(command, **guards)
shared = scene.run(command, **guards)
scene.close()
print(json.dumps([outcome.stdout, outcome.exit_code, describe(changes), shared.stdout, bubblewrap.probe().promises]))
"""


def test_a_command_of_an_ordinary_user() -> None:
    skip_unless_works("bubblewrap")
    with open_user_folder() as folder:
        done = run_python(folder, "-c", SCRIPT, str(folder))
        assert done.returncode == 0, done.stderr
        stdout, exit_code, changes, shared, promises = json.loads(done.stdout)
        assert (stdout, exit_code) == (f"{ORDINARY}\n1\n0\nnone\n", 9)
        assert changes == ["created made"]
        assert shared == stdout
        assert promises["files outside"]
        assert (folder / "ws/made").stat().st_uid == ORDINARY
        assert os.listdir(folder / "ws/.git/hooks") == []


@pytest.mark.parametrize("name", ["test_bubblewrap.py", "test_confinement.py"])
def test_as_an_ordinary_user(name: str) -> None:
    skip_unless_works("bubblewrap")
    with open_user_folder() as folder:
        run_tests(folder, str(HERE / name), "-k", "not gvisor")
