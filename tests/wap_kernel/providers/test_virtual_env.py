"""The environment that somebody activated before the server was started, which need not be the server's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.provider_workspace import CONFINING, SERVER, MakeScene, Scene
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.protected import Protection
from wap_kernel.providers.process import environment

VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
MODULE = "import sys\nprint(sys.prefix)\n"


def make_environment(variable: str, prefix: Path) -> None:
    """Create an environment with a program and a module. Conda's has no `pyvenv.cfg`, and a library of its own."""
    if variable == "VIRTUAL_ENV":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True, timeout=60)
    else:
        for folder in ("bin", "conda-meta", LIBRARY):
            (prefix / folder).mkdir(parents=True)
        for entry in Path(sys.base_prefix, LIBRARY).iterdir():
            (prefix / LIBRARY / entry.name).symlink_to(entry)
        (prefix / LIBRARY / "site-packages").unlink(missing_ok=True)
        (prefix / LIBRARY / "site-packages").mkdir()
        executable = os.path.realpath(sys.executable)
        program(prefix / "bin/python", f'PYTHONHOME={prefix} exec {executable} "$@"')
    (prefix / LIBRARY / "site-packages/installed.py").write_text(MODULE)
    program(prefix / "bin/a-tool", f"exec {prefix}/bin/python -m installed")


def program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def activated(make_scene: MakeScene, provider: str, variable: str, prefix: Path, home: Path) -> Scene:
    """A workspace in `home` whose server was started in that environment."""
    given = {**SERVER, "PATH": f"{prefix}/bin:{SERVER['PATH']}", variable: str(prefix)}
    return make_scene(provider, home / "work", home=home, environment=given)


@pytest.mark.parametrize("provider", CONFINING)
@pytest.mark.parametrize("variable", VARIABLES)
def test_its_programs_run_and_cannot_be_changed(
    make_scene: MakeScene, tmp_path: Path, provider: str, variable: str
) -> None:
    home = tmp_path / "home"
    prefix = home / "envs/mine"
    make_environment(variable, prefix)
    scene = activated(make_scene, provider, variable, prefix, home)
    outcome = scene.run(f"a-tool; echo ${variable}; command -v a-tool; cd {home}; echo * envs/*")
    expected = [prefix, prefix, prefix / "bin/a-tool", "envs work envs/mine"]
    assert (outcome.stdout.splitlines(), outcome.stderr) == ([str(line) for line in expected], "")

    module = prefix / LIBRARY / "site-packages/installed.py"
    outcome = scene.run(f"echo 1 > {prefix}/bin/ls; echo 2 >> {module}")
    assert outcome.exit_code == 1
    assert not (prefix / "bin/ls").exists() and module.read_text() == MODULE


def test_a_virtual_environment_on_an_interpreter_in_home(make_scene: MakeScene, tmp_path: Path) -> None:
    """The base of the environment is found as well: no other setting of the server names it."""
    home = tmp_path / "home"
    versions = home / ".pyenv/versions"
    versions.mkdir(parents=True)
    (versions / "link").symlink_to(os.path.realpath(sys.base_prefix))
    python = versions / "link/bin" / os.path.basename(os.path.realpath(sys.executable))
    prefix = home / "venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    (prefix / "bin/python").symlink_to(python)
    scene = activated(make_scene, "bubblewrap", "VIRTUAL_ENV", prefix, home)
    outcome = scene.run(f"{prefix}/bin/python -c 'import sys; print(sys.prefix)'")
    assert (outcome.stdout, outcome.stderr) == (f"{prefix}\n", "")


@pytest.mark.parametrize("variable", VARIABLES)
def test_its_folder_stays_on_the_path_of_a_sandbox(tmp_path: Path, variable: str) -> None:
    """Unless it is gone: in the empty home of a sandbox a command could make it."""
    (tmp_path / "mine/bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path}/mine/bin:{tmp_path}/bin:/usr/bin"

    def kept(prefix: str) -> str:
        return environment.restrict_search_path({"HOME": str(tmp_path), variable: prefix, "PATH": path})["PATH"]

    assert kept(f"{tmp_path}/mine") == f"{tmp_path}/mine/bin:/usr/bin"
    assert kept("mine") == "/usr/bin"
    (tmp_path / "mine/bin").rmdir()
    assert kept(f"{tmp_path}/mine") == "/usr/bin"


@pytest.mark.parametrize("variable", VARIABLES)
def test_in_the_workspace_it_is_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    protected = find_protected_paths(str(tmp_path), "/elsewhere")
    assert protected.level("mine/bin/python") is Protection.READ_ONLY
    assert protected.level("mines") is not Protection.READ_ONLY
    assert str(tmp_path / "mine") in protected.prefixes
