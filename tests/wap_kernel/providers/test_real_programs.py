"""Real programs on layers: each command runs on one, what it changed is applied, and the next one builds on it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.applied_commands import AppliedCommands
from tests.support.layer_workspace import describe
from tests.support.ordinary_user import open_user_folder, run_tests
from tests.support.provider_workspace import CONFINING, skip_if_lacking, skip_unless_works

PATIENCE = 300.0


@pytest.fixture(params=CONFINING)
def workspace(request: pytest.FixtureRequest) -> Iterator[AppliedCommands]:
    skip_unless_works(request.param)
    with tempfile.TemporaryDirectory(prefix="wap-programs-") as name:
        workspace = AppliedCommands(Path(name).resolve(), request.param)
        yield workspace
        assert workspace.leftovers() == []
        workspace.close()


def succeed(workspace: AppliedCommands, command: str) -> str:
    """Run a command that must succeed, and return its output."""
    outcome, _ = workspace.execute(command, timeout=PATIENCE)
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def skip_without(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


def git(folder: Path, *arguments: str) -> str:
    """What git says outside of the sandbox."""
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_git(workspace: AppliedCommands) -> None:
    skip_without("git")
    name = "-c user.name=n -c user.email=e"
    # For an ordinary user a file that gets a second name gets another inode too, which some versions of git refuse,
    # and a folder that was there cannot be renamed.
    links = "--no-hardlinks " if os.geteuid() != 0 else ""
    steps = [
        "git init -q -b main . && echo 1 > a && git add a",
        f"git {name} commit -qm first",
        "git checkout -q -b side && mkdir d && echo 2 > d/b && git add d",
        f"git {name} commit -qm second",
        f"git checkout -q main && echo 3 > c && git add c && git {name} commit -qm third",
        f"git {name} rebase -q main side",
        f"echo changed >> a && echo new > e && git add e && git {name} stash -q",
        "git checkout -q main && git merge -q side && git branch -d side",
        f"git {name} stash pop -q && git {name} commit -qam fourth",
        f"git clone -q {links}. ../ws/clone && git -C clone log --oneline | wc -l",
        "git mv d moved || (mkdir moved && git mv d/b moved/b)",
        f"git {name} commit -qm fifth && git gc -q && git tag done",
    ]
    for step in steps:
        succeed(workspace, step)
    assert git(workspace.folder, "log", "--format=%s", "main").split() == [
        "fifth",
        "fourth",
        "second",
        "third",
        "first",
    ]
    assert git(workspace.folder, "status", "--porcelain") == "?? clone/\n"
    assert git(workspace.folder / "clone", "log", "--format=%s").split()[0] == "fourth"
    for repository in (workspace.folder, workspace.folder / "clone"):
        assert git(repository, "fsck", "--strict", "--no-dangling") == ""
    assert (workspace.folder / "moved/b").read_text() == "2\n"


def test_npm(workspace: AppliedCommands) -> None:
    skip_without("npm", "node")
    skip_if_lacking(workspace.provider.name, "statx")
    package = workspace.folder / "greeting"
    (package / "lib").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "greeting", "version": "1.2.3", "main": "lib/index.js"}')
    (package / "lib/index.js").write_text("module.exports = () => 'hello'\n")
    (workspace.folder / "package.json").write_text('{"name": "app", "version": "1.0.0"}')
    options = "--offline --no-audit --no-fund --loglevel=error"
    succeed(workspace, f"npm pack ./greeting {options}")
    succeed(workspace, f"npm install ./greeting-1.2.3.tgz {options}")
    script = "console.log(require('greeting')())"
    assert succeed(workspace, f'node -e "{script}"') == "hello\n"
    assert json.loads((workspace.folder / "package.json").read_text())["dependencies"]
    done = subprocess.run(["node", "-e", script], cwd=workspace.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"
    succeed(workspace, f"npm uninstall greeting {options}")
    assert not (workspace.folder / "node_modules/greeting").exists()


def make_wheel(folder: Path, version: str) -> str:
    name = f"greeting-{version}-py3-none-any.whl"
    facts = f"greeting-{version}.dist-info"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("greeting/__init__.py", f"VERSION = {version!r}\n\n\ndef main():\n    print('hello', VERSION)\n")
        wheel.writestr(f"{facts}/METADATA", f"Metadata-Version: 2.1\nName: greeting\nVersion: {version}\n")
        wheel.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{facts}/entry_points.txt", "[console_scripts]\ngreet = greeting:main\n")
        wheel.writestr(f"{facts}/RECORD", "")
    return name


def test_pip_in_an_environment_of_the_workspace(workspace: AppliedCommands) -> None:
    skip_if_lacking(workspace.provider.name, "statx")
    succeed(workspace, f"{sys.executable} -m venv env")
    for version in ("1.0", "2.0"):
        name = make_wheel(workspace.folder, version)
        succeed(workspace, f"env/bin/python -m pip install -q --no-index --upgrade ./{name}")
        assert succeed(workspace, "env/bin/greet") == f"hello {version}\n"
    greet = str(workspace.folder / "env/bin/greet")
    assert subprocess.run([greet], capture_output=True, text=True, check=True).stdout == "hello 2.0\n"


MAKEFILE = """\
all: build/program build/copy
build/program: src/main.txt | build
\ttr a-z A-Z < $< > $@; chmod +x $@
build/copy: build/program
\tcp -p $< $@
build:
\tmkdir $@
clean:
\trm -rf build
"""


def test_make(workspace: AppliedCommands) -> None:
    """Times of modification are applied too: what was made is not made again."""
    skip_without("make")
    (workspace.folder / "src").mkdir()
    (workspace.folder / "src/main.txt").write_text("main\n")
    (workspace.folder / "Makefile").write_text(MAKEFILE)
    succeed(workspace, "make -s")
    assert (workspace.folder / "build/program").read_text() == "MAIN\n"
    assert os.access(workspace.folder / "build/copy", os.X_OK)
    outcome, changes = workspace.execute("make")
    assert "Nothing to be done" in outcome.stdout
    assert describe(changes) == []
    (workspace.folder / "src/main.txt").write_text("other\n")
    succeed(workspace, "make -s")
    assert (workspace.folder / "build/copy").read_text() == "OTHER\n"
    succeed(workspace, "make -s clean")
    assert not (workspace.folder / "build").exists()


def test_pytest(workspace: AppliedCommands) -> None:
    tests = "from pathlib import Path\n\n\ndef test(tmp_path):\n    Path('ran').touch()\n    (tmp_path / 'x').touch()\n"
    (workspace.folder / "test_it.py").write_text(tests)
    command = f"{sys.executable} -m pytest -q -p no:schemathesis"
    assert "1 passed" in succeed(workspace, command)
    assert (workspace.folder / "ran").exists()
    assert (workspace.folder / ".pytest_cache").is_dir()
    (workspace.folder / "test_it.py").write_text("def test():\n    assert False\n")
    outcome, _ = workspace.execute(command, timeout=PATIENCE)
    assert outcome.exit_code == 1
    assert "1 passed" not in outcome.stdout


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite(workspace: AppliedCommands, journal: str) -> None:
    skip_without("sqlite3")
    succeed(workspace, f"sqlite3 data.db 'PRAGMA journal_mode={journal}; CREATE TABLE t(a); INSERT INTO t VALUES(1)'")
    succeed(workspace, "sqlite3 data.db 'BEGIN; INSERT INTO t SELECT a + 1 FROM t; COMMIT'")
    program = "import sqlite3; c = sqlite3.connect('data.db'); c.execute('INSERT INTO t VALUES(3)'); c.commit()"
    succeed(workspace, f'python3 -c "{program}"')
    assert succeed(workspace, "sqlite3 data.db 'SELECT sum(a) FROM t; PRAGMA integrity_check'") == "6\nok\n"
    connection = sqlite3.connect(workspace.folder / "data.db")
    assert connection.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,), (3,)]
    connection.close()


def test_a_notebook(workspace: AppliedCommands) -> None:
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    skip_if_lacking(workspace.provider.name, "statx")
    sources = ("from pathlib import Path\nPath('made').write_text('x')", "print(6 * 7)")
    empty: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**empty, "id": f"c{number}", "source": source} for number, source in enumerate(sources)]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}
    (workspace.folder / "book.ipynb").write_text(json.dumps(notebook))
    succeed(workspace, f"{sys.executable} -m nbconvert --to notebook --execute --inplace book.ipynb")
    made = json.loads((workspace.folder / "book.ipynb").read_text())
    assert made["cells"][1]["outputs"][0]["text"] == ["42\n"]
    assert (workspace.folder / "made").read_text() == "x"


def test_everything_can_be_taken_back(workspace: AppliedCommands) -> None:
    """What the programs above did is a change like any other."""
    skip_without("git", "sqlite3")
    before = workspace.tree()
    for step in ("git init -q . && echo 1 > a && git add a", "sqlite3 data.db 'CREATE TABLE t(a)'", "rm -rf .git a"):
        succeed(workspace, step)
    assert workspace.revert("run", "revert").left is None
    assert workspace.tree() == before


def test_as_an_ordinary_user() -> None:
    skip_unless_works("bubblewrap")
    with open_user_folder() as folder:
        run_tests(folder, __file__, "-k", "bubblewrap")
