"""Facts about a machine: links are followed to their end, interpreters to what they stand on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.provider_workspace import Guard, Journal, MakeScene
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind
from wap_kernel.model.command import Confinement
from wap_kernel.providers import host_paths
from wap_kernel.providers.mounts import HostPaths, ResolvedPath


def gather(root: Path, home: Path, **environment: str) -> HostPaths:
    files = Root(str(root), guard=Guard(), journal=Journal())
    try:
        return host_paths.gather_host_paths(files, environment={"HOME": str(home), **environment}, secrets=())
    finally:
        files.close()


def test_links_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "real/py/bin").mkdir(parents=True)
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "real/two").symlink_to(tmp_path / "one/py")
    (tmp_path / "up").symlink_to("real/../one/two")
    assert host_paths.resolve_links(f"{tmp_path}/up/bin") == ResolvedPath(
        f"{tmp_path}/real/py/bin",
        (
            (f"{tmp_path}/up", "real/../one/two"),
            (f"{tmp_path}/one", "real"),
            (f"{tmp_path}/real/two", f"{tmp_path}/one/py"),
            (f"{tmp_path}/one", "real"),
        ),
    )


def test_a_loop_of_links_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(host_paths.resolve_links(str(tmp_path / "a")).links) == 40


def test_what_stands_somewhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    names = ("", "file", "link", "fifo", "missing", "file/below")
    kinds = [host_paths.lstat_kind(str(tmp_path / name)) for name in names]
    assert kinds[:5] == [FileKind.FOLDER, FileKind.FILE, FileKind.LINK, FileKind.SPECIAL, None]
    assert host_paths.lstat_kind(f"{tmp_path}/file/below") is None


def test_guards_are_put_on_what_links_lead_to(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "a").mkdir(parents=True)
    (root / "a/file").touch()
    (root / "link").symlink_to("a/file")
    (root / "out").symlink_to("/etc")
    files = Root(str(root), guard=Guard(), journal=Journal())
    given = Confinement(
        hidden=("link", "out", "out/passwd", "a/file"), read_only=("link",), pinned=("a",), network=True
    )
    found = host_paths.resolve_confinement(given, files)
    files.close()
    assert found == Confinement(("a/file", "a/file"), ("a/file",), ("a",), network=True)


def test_the_kernels_interpreters_and_what_they_stand_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root = tmp_path / "home", tmp_path / "ws"
    root.mkdir()
    base = home / ".pyenv/versions/3.12.4"
    for folder in (
        base / "bin",
        base / "lib/python3.12",
        home / "venv/bin",
        home / "scripts",
        tmp_path / "data/kernels/k",
    ):
        folder.mkdir(parents=True)
    (base / "bin/python3.12").touch()
    (home / ".pyenv/versions/3.12").symlink_to("3.12.4")
    (home / "venv/pyvenv.cfg").write_text(f"home = {home}/.pyenv/versions/3.12/bin\nversion = 3.12\n")
    (home / "venv/bin/python").symlink_to(home / ".pyenv/versions/3.12/bin/python3.12")
    (home / "scripts/start").touch()
    (home / "start").touch()
    for name, program in (("k", home / "venv/bin/python"), ("s", home / "scripts/start"), ("h", home / "start")):
        (tmp_path / "data/kernels" / name).mkdir(exist_ok=True)
        (tmp_path / "data/kernels" / name / "kernel.json").write_text(json.dumps({"argv": [str(program)]}))
    (tmp_path / "data/kernels/broken").mkdir()
    (tmp_path / "data/kernels/broken/kernel.json").write_text('{"argv": 3}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    found = gather(root, home, CONDA_PREFIX=str(home))
    shown = {path.real for path in found.software}
    assert {str(home / "venv"), str(base), str(home / "scripts/start"), str(home / "start")} <= shown
    assert str(home / "scripts") not in shown
    assert str(home) not in shown  # an interpreter in home itself does not open all of home
    links = {link for path in found.software for link in path.links}
    assert (str(home / ".pyenv/versions/3.12"), "3.12.4") in links


PROGRAMS = [
    ("run.sh", "", "run.sh"),
    ("bin/run.sh", "", "bin/run.sh"),
    ("bin/run.sh", "lib/notes", "bin/run.sh"),
    ("tools/python", "lib/python3.12", "tools/python"),
    ("bin/python", "lib/python3.12", "."),
    ("bin/python", "conda-meta", "."),
    ("bin/python", "pyvenv.cfg", "."),
    ("bin/julia", "lib/julia", "."),
]


@pytest.mark.parametrize(("program", "beside", "is_shown"), PROGRAMS)
def test_what_is_shown_of_a_kernels_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, beside: str, is_shown: str
) -> None:
    project = tmp_path / "data[1]" / "project"
    (project / program).parent.mkdir(parents=True)
    (project / program).touch()
    (project / beside).mkdir(parents=True, exist_ok=True)
    (tmp_path / "kernels/k").mkdir(parents=True)
    (tmp_path / "kernels/k/kernel.json").write_text(json.dumps({"argv": [str(project / program)]}))
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    shown = {Path(path.real) for path in gather(tmp_path / "ws", tmp_path / "home").software}
    assert {path for path in shown if path.is_relative_to(project)} == {project / is_shown, project / program}


@pytest.mark.parametrize("name", ["bubblewrap", "gvisor"])
def test_a_virtual_environment_that_stands_on_home_works(
    make_scene: MakeScene, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Build what pyenv and uv make: a link to the version, and a kernel's own environment."""
    home = tmp_path / "home"
    versions = home / ".pyenv/versions"
    versions.mkdir(parents=True)
    (versions / "link").symlink_to(os.path.realpath(sys.base_prefix))
    (home / "venv/bin").mkdir(parents=True)
    (home / "venv/lib/python3/site-packages").mkdir(parents=True)
    (home / "venv/pyvenv.cfg").write_text(f"home = {versions}/link/bin\n")
    python = home / "venv/bin/python"
    python.symlink_to(versions / "link/bin" / os.path.basename(os.path.realpath(sys.executable)))
    (tmp_path / "data/kernels/k").mkdir(parents=True)
    (tmp_path / "data/kernels/k/kernel.json").write_text(json.dumps({"argv": [str(python)]}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    scene = make_scene(name, home / "work", home=home)
    outcome = scene.run((str(python), "-c", "import sys, json, ctypes; print(sys.prefix)"))
    assert (outcome.stdout, outcome.stderr) == (f"{home}/venv\n", "")


@pytest.mark.parametrize("name", ["bubblewrap", "gvisor"])
def test_the_servers_own_python_works(make_scene: MakeScene, name: str) -> None:
    outcome = make_scene(name).run("python -c 'import sys, pydantic; print(sys.executable)'")
    assert (outcome.stdout, outcome.stderr) == (f"{sys.executable}\n", "")


def test_nothing_is_taken_from_a_file_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent can have written the settings, the links and the kernels there."""
    home = tmp_path / "home"
    root = home / "ws"
    secret = home / "secret"
    for folder in (root / "venv/bin", root / "data/kernels/inside", tmp_path / "data/kernels/k", secret):
        folder.mkdir(parents=True)
    (secret / "key").touch()
    (secret / "bin").mkdir()
    (secret / "pyvenv.cfg").touch()
    (root / "venv/pyvenv.cfg").write_text(f"home = {secret}/bin\n")
    (root / "venv/bin/python").symlink_to(secret / "key")
    (root / "data/kernels/inside/kernel.json").write_text(json.dumps({"argv": [str(secret / "key")]}))
    (tmp_path / "data/kernels/k/kernel.json").write_text(json.dumps({"argv": [str(root / "venv/bin/python")]}))
    (tmp_path / "data/kernels/linked").symlink_to(root / "data/kernels/inside")
    (home / "alias").symlink_to(root / "venv")
    (tmp_path / "data/kernels/alias").mkdir()
    (tmp_path / "data/kernels/alias/kernel.json").write_text(json.dumps({"argv": [str(home / "alias/bin/python")]}))
    monkeypatch.setenv("JUPYTER_PATH", f"{tmp_path}/data:{root}/data")
    for active in ({}, {"VIRTUAL_ENV": str(root / "venv")}):
        found = gather(root, home, **active)
        assert [path for path in found.software if path.real.startswith(str(secret))] == []
        assert [link for path in found.software for link in path.links if link[0].startswith(f"{root}/")] == []


@pytest.mark.parametrize("store", [".pyenv/versions", ".local/share/uv/python"])
def test_an_environment_in_the_workspace_on_an_installed_interpreter(
    make_scene: MakeScene, tmp_path: Path, store: str
) -> None:
    """Its base is visible, since pyenv and uv install interpreters there, and not since the environment names it."""
    home = tmp_path / "home"
    installed = home / store / "3.12"
    installed.parent.mkdir(parents=True)
    installed.symlink_to(os.path.realpath(sys.base_prefix))
    prefix = home / "work/venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(f"home = {installed}/bin\n")
    (prefix / "bin/python").symlink_to(installed / "bin" / os.path.basename(os.path.realpath(sys.executable)))
    outcome = make_scene("bubblewrap", home / "work", home=home).run(
        "venv/bin/python -c 'import sys; print(sys.prefix)'"
    )
    assert (outcome.stdout, outcome.stderr) == (f"{prefix}\n", "")
