"""git, glob, notebook, move and copy of the typed API, through a server and without one."""

from __future__ import annotations

import os
import subprocess

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.support.server_processes import Place
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import AlreadyExists, FileNotFound


def test_glob_finds_files_newest_first(client: WorkspaceClient, place: Place) -> None:
    folder = place.root / "globbed" / "deep"
    folder.mkdir(parents=True, exist_ok=True)
    for age, name in enumerate(("deep/new.py", "old.py", "other.txt")):
        path = place.root / "globbed" / name
        path.write_text("x")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    found = client.glob("**/*.py", "globbed")
    assert found.paths == ["globbed/deep/new.py", "globbed/old.py"]
    assert client.read(found.paths[0]).text == "x"
    assert "old.py" in repr(found)
    assert list(client.glob("globbed/*.none")) == []


def test_notebook_has_its_cells(client: WorkspaceClient, place: Place) -> None:
    cells = [new_code_cell("1 + 1", id="sum", outputs=[new_output("stream", text="two\n")]), new_code_cell("x", id="x")]
    nbformat.write(new_notebook(cells=cells), place.root / "a.ipynb")
    notebook = client.notebook("a.ipynb")
    assert [(cell["id"], cell["source"]) for cell in notebook] == [("sum", "1 + 1"), ("x", "x")]
    assert "code sum" in repr(notebook) and "| 1 + 1" in repr(notebook) and "> two" in repr(notebook)
    (cell,) = client.notebook("a.ipynb", cells=["sum"], outputs=False)
    assert "outputs" not in cell


def test_a_move_and_a_copy_are_runs(client: WorkspaceClient, place: Place) -> None:
    for name in ("from.txt", "to/copy.txt", "to/moved.txt"):
        (place.root / name).unlink(missing_ok=True)
    (place.root / "from.txt").write_text("x")
    copied = client.copy("from.txt", "to/copy.txt")
    assert copied.ok and (place.root / "to" / "copy.txt").read_text() == "x"
    assert "copy from.txt → to/copy.txt" in repr(copied)
    with pytest.raises(AlreadyExists):
        client.copy("from.txt", "to/copy.txt")
    assert client.move("from.txt", "to/moved.txt").files == ["to/moved.txt"]
    assert not (place.root / "from.txt").exists()
    assert client.revert("last").ok
    assert (place.root / "from.txt").read_text() == "x"
    with pytest.raises(FileNotFound):
        client.move("missing.txt", "x.txt")


def test_git(client: WorkspaceClient, place: Place) -> None:
    repository = place.root / "repository"
    if not repository.exists():
        repository.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=repository, check=True)
        subprocess.run(["git", "config", "user.email", "a@b.c"], cwd=repository, check=True)
        subprocess.run(["git", "config", "user.name", "A"], cwd=repository, check=True)
    (repository / "a.txt").write_text(f"{client.endpoint.kind}\n")
    status = client.git("status", "repository")
    assert status.ok and "a.txt" in repr(status)
    made = client.git("commit", "repository", message=f"Add it from {client.endpoint.kind}", files=["a.txt"])
    assert made.ok, made
    (newest, *_) = client.git("log", "repository", limit=1).data["commits"]
    assert newest["subject"] == f"Add it from {client.endpoint.kind}"
    (repository / "a.txt").write_text("changed\n")
    assert "| +changed" in repr(client.git("diff", "repository"))
    assert not client.git("show", "repository", ref="nothing").ok
