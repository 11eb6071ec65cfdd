"""Protected paths of this moment: links of protected names, kernels, and repositories of another name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.change_sets import ChangedFolder
from wap_kernel.model.errors import PathClosed
from wap_kernel.model.paths import Access
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.protected import ProtectedPaths, Protection


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder; Jupyter's folders lie elsewhere."""
    home = tmp_path / "home"
    (home / "ws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.delenv("IPYTHONDIR", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return home


def add_kernel(folder: Path, *argv: object) -> None:
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({"argv": [str(word) for word in argv]}))


def is_closed(paths: ProtectedPaths, path: str) -> bool:
    try:
        paths.check(path, Access.WRITE)
    except PathClosed:
        return True
    return False


def test_links_of_this_moment(home: Path) -> None:
    (home / "ws/dotfiles/ssh").mkdir(parents=True)
    paths = find_protected_paths(str(home / "ws"), "/elsewhere")
    assert not is_closed(paths, "dotfiles/bashrc")
    assert paths.find_link_targets() == {}
    (home / ".bashrc").symlink_to("ws/dotfiles/bashrc")  # the name lies outside the root, the content in it
    (home / ".ssh").symlink_to("ws/dotfiles/ssh")
    assert is_closed(paths, "dotfiles/bashrc")
    assert is_closed(paths, "dotfiles/ssh/config")
    assert paths.find_link_targets() == {"dotfiles/bashrc": Protection.READ_ONLY, "dotfiles/ssh": Protection.HIDDEN}
    with pytest.raises(PathClosed):
        paths.check_tree("dotfiles")
    assert paths.level("dotfiles/ssh/key") is Protection.HIDDEN
    assert "ssh" in paths.hidden_names("dotfiles")
    assert paths.names_leading_to_hidden(".") == {"dotfiles"}
    assert "bashrc" in paths.read_only_names("dotfiles")
    (home / ".bashrc").unlink()
    assert not is_closed(paths, "dotfiles/bashrc")


def test_a_snapshot_stays_as_it_is(home: Path) -> None:
    paths = find_protected_paths(str(home), "/elsewhere")
    before = paths.snapshot()
    (home / ".bashrc").symlink_to("dotfiles")
    assert before.level("dotfiles") is Protection.OPEN
    after = paths.snapshot()
    assert after.level("dotfiles") is Protection.READ_ONLY
    assert after.snapshot() is after


def test_environments_of_kernels(home: Path, tmp_path: Path) -> None:
    root = home / "ws"
    paths = find_protected_paths(str(root), "/elsewhere")
    for name in ("venv", "conda", "other"):
        (root / name / "bin").mkdir(parents=True)
    (root / "venv/pyvenv.cfg").write_text(f"home = {root}/base/bin\n")
    (root / "base/lib/python3.12").mkdir(parents=True)
    (root / "conda/conda-meta").mkdir()
    (root / "conda/bin/R").touch()
    assert not is_closed(paths, "venv/lib/x.pth")
    kernels = tmp_path / "data/kernels"
    add_kernel(kernels / "venv", root / "venv/bin/python", "-m", "ipykernel")
    add_kernel(kernels / "conda", "/usr/bin/env", root / "conda/bin/R")
    add_kernel(kernels / "script", root / "other/bin/start.sh")
    add_kernel(kernels / "none", "python")
    for path in ("venv/lib/x.pth", "venv/new", "base/lib/python3.12/os.py", "conda/lib/R/x", "other/bin/start.sh"):
        assert is_closed(paths, path), path
    assert not is_closed(paths, "other/bin/another.sh")
    assert not is_closed(paths, "other/lib/x")
    (kernels / "venv/kernel.json").write_text(json.dumps({"argv": ["python"]}))
    assert not is_closed(paths, "venv/new")


def test_an_interpreter_that_does_not_exist_yet(home: Path, tmp_path: Path) -> None:
    add_kernel(tmp_path / "data/kernels/k", home / "ws/venv/bin/python3.12")
    paths = find_protected_paths(str(home / "ws"), "/elsewhere")
    assert {"venv/bin", "venv/pyvenv.cfg", "venv/lib"} <= set(paths.fixed_paths)
    for path in ("venv/bin/python3.12", "venv/bin/pyvenv.cfg", "venv/pyvenv.cfg", "venv/lib/python3.12/site.py"):
        assert is_closed(paths, path), path


def test_a_root_that_is_an_environment(home: Path, tmp_path: Path) -> None:
    """The person works in it, so only what the interpreter obeys is closed."""
    root = home / "ws"
    (root / "pyvenv.cfg").touch()
    add_kernel(tmp_path / "data/kernels/k", root / "bin/python")
    paths = find_protected_paths(str(root), "/elsewhere")
    assert is_closed(paths, "lib/python3/site-packages/x.pth")
    assert is_closed(paths, "share/jupyter/kernels/python3/kernel.json")
    assert not is_closed(paths, "main.py")


def test_an_active_environment_that_is_the_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(home / "ws"))
    paths = find_protected_paths(str(home / "ws"), "/elsewhere")
    assert is_closed(paths, "bin/pip")
    assert not is_closed(paths, "main.py")


def test_a_kernelspec_that_a_link_leads_to(home: Path, tmp_path: Path) -> None:
    add_kernel(home / "ws/specs/mine", sys.executable)
    (tmp_path / "data/kernels").mkdir(parents=True)
    (tmp_path / "data/kernels/mine").symlink_to(home / "ws/specs/mine")
    paths = find_protected_paths(str(home / "ws"), "/elsewhere")
    assert is_closed(paths, "specs/mine/kernel.json")
    assert is_closed(paths, "specs/mine/logo.png")
    assert not is_closed(paths, "specs/other/kernel.json")


def test_repositories_of_another_name(home: Path) -> None:
    root = home / "ws"
    subprocess.run(["git", "init", "-q", "--bare", root / "bare"], check=True)
    (root / "half/objects").mkdir(parents=True)
    (root / "half/HEAD").touch()
    (root / "sub/store").mkdir(parents=True)
    (root / "sub/.git").symlink_to("store")
    (root / "up").mkdir()
    (root / "up/.git").symlink_to("..")
    paths = find_protected_paths(str(root), "/elsewhere")
    assert is_closed(paths, "bare")
    assert is_closed(paths, "bare/hooks/post-receive")
    assert is_closed(paths, "sub/store/config")  # no repository yet, and git looks there
    assert not is_closed(paths, "half/hooks/post-receive")
    assert not is_closed(paths, "sub/storehouse")
    assert not is_closed(paths, "up/file")
    assert not is_closed(paths, "file")
    paths.check("bare/hooks", Access.READ)


def test_a_root_that_is_a_repository_is_a_persons_work(home: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", home / "ws"], check=True)
    paths = find_protected_paths(str(home / "ws"), "/elsewhere")
    assert not is_closed(paths, "notes.txt")


def test_a_link_to_the_root_by_another_name(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alias").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "alias"))
    paths = find_protected_paths(str(tmp_path / "alias"), "/elsewhere")
    (home / ".bashrc").symlink_to("dotfiles")
    assert is_closed(paths, "dotfiles")


def test_a_command_may_push_to_a_repository_of_another_name(home: Path) -> None:
    """The file tools may not write there; git may, and its effect is judged."""
    folder = ChangedFolder(home / "ws")
    folder.prepare("git init -q --bare bare", "git init -q work")
    folder.run("cd work; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git push -q ../bare HEAD:x")
    judgement = folder.judge(protected=find_protected_paths(str(folder.before), "/elsewhere"))
    assert judgement.refused == ()
    assert any(change.path.startswith("bare/objects/") for change in folder.changes)
