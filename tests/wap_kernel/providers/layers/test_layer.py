"""A layer on disk: it is made, held, locked, found again after a restart, and removed whatever a command did in it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.support.layer_workspace import LayerWorkspace, describe
from wap_kernel.model.errors import Conflict, NoSpace, NotFound, ProviderUnavailable
from wap_kernel.providers.layers import layer as layer_module
from wap_kernel.providers.layers.layer import Layer, read_clock, remove_tree


@pytest.fixture
def layer(workspace: LayerWorkspace) -> Layer:
    return workspace.layers.create()


def test_a_new_layer_changes_nothing(workspace: LayerWorkspace, layer: Layer) -> None:
    assert describe(layer.read_changes()) == []
    assert layer.files is workspace.root
    assert layer.namespaces is None
    assert stat.S_IMODE(os.stat(layer.folder).st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o1777, 0o2775, 0o751])
def test_it_has_the_permissions_of_the_workspace(workspace: LayerWorkspace, mode: int) -> None:
    workspace.folder.chmod(mode)
    layer = workspace.layers.create()
    outcome = workspace.run("stat -c %a .", workspace.make_task(layer=layer))
    assert outcome.output == f"{mode:o}\n"
    assert describe(layer.read_changes()) == []
    layer.discard()


# -- time


def test_what_is_saved_after_the_tick_is_newer(workspace: LayerWorkspace, layer: Layer) -> None:
    (workspace.folder / "before").touch()
    began = layer.began_ns
    layer.restart_clock()
    assert layer.began_ns >= max(began, (workspace.folder / "before").stat().st_ctime_ns)
    layer.await_tick()
    (workspace.folder / "after").touch()
    assert (workspace.folder / "after").stat().st_ctime_ns > layer.began_ns
    layer.close()
    assert workspace.layers.load(layer.id).began_ns == layer.began_ns


def test_a_filesystem_without_nameless_files_has_a_clock(
    workspace: LayerWorkspace, layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_CREAT)  # EINVAL, as from a filesystem that has none
    first = read_clock(workspace.root, layer.folder)
    layer.await_tick()
    assert read_clock(workspace.root, layer.folder) > layer.began_ns
    assert first > 0
    assert os.listdir(workspace.folder) == []


# -- holding


def test_a_layer_that_is_held_can_be_read_and_written_by_file_tools(workspace: LayerWorkspace, layer: Layer) -> None:
    (workspace.folder / "file").write_text("old")
    layer.hold()
    assert layer.hold() == layer.hold()
    files = layer.files
    assert files.path == workspace.root.path
    with files.open("file") as file:
        assert file.read() == b"old"
    files.replace("file", b"new")
    files.mkdir("folder")
    files.unlink("file")
    assert describe(layer.read_changes()) == ["deleted file", "created folder"]
    assert (workspace.folder / "file").read_text() == "old"
    layer.release()
    layer.release()
    assert layer.files is workspace.root


def test_a_layer_that_cannot_be_mounted(workspace: LayerWorkspace, layer: Layer) -> None:
    os.rmdir(os.path.join(layer.folder, "work"))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ProviderUnavailable, match="could not be mounted"):
        layer.hold()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert layer.namespaces is None


# -- notes


def test_notes(workspace: LayerWorkspace, layer: Layer) -> None:
    assert layer.read_note("outcome") is None
    layer.write_note("outcome", {"exit": 1})
    layer.write_note("outcome", {"exit": 2})
    layer.close()
    assert workspace.layers.load(layer.id).read_note("outcome") == {"exit": 2}
    assert describe(layer.read_changes()) == []


# -- finding


def test_a_layer_survives_its_server(workspace: LayerWorkspace, layer: Layer, tmp_path: Path) -> None:
    workspace.run("echo x > made", workspace.make_task(layer=layer))
    layer.close()
    other = LayerWorkspace(tmp_path)
    try:
        found = other.layers.load(layer.id)
        assert (found.began_ns, describe(found.read_changes())) == (layer.began_ns, ["created made"])
        found.discard()
    finally:
        other.close()
    assert not workspace.layers.exists(layer.id)


@pytest.mark.parametrize("name", ["layer_0123456789abcdef", "../layers", "", ".", "..", "../../ws"])
def test_a_layer_that_is_not_there(workspace: LayerWorkspace, name: str) -> None:
    with pytest.raises(NotFound, match="is gone"):
        workspace.layers.load(name)
    workspace.layers.remove(name)
    assert workspace.folder.is_dir()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"began_ns": 1}', '{"more": 1}'])
def test_a_layer_that_is_damaged(workspace: LayerWorkspace, layer: Layer, content: str) -> None:
    layer.close()
    Path(layer.folder, "layer.json").write_text(content)
    with pytest.raises(NotFound):
        workspace.layers.load(layer.id)
    assert workspace.layers.list() == []


def test_layers_are_listed_oldest_first(workspace: LayerWorkspace) -> None:
    made = []
    for _ in range(3):
        made.append(workspace.layers.create())
        made[-1].await_tick()
    assert [layer.id for layer in workspace.layers.list()] == [layer.id for layer in made]
    made[1].discard()
    assert [layer.id for layer in workspace.layers.list()] == [made[0].id, made[2].id]


# -- locks


def test_a_layer_has_one_user(workspace: LayerWorkspace, layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "LOCK_SECONDS", 0.01)
    (other,) = workspace.layers.list()
    assert layer.lock()
    assert not other.lock()
    with pytest.raises(Conflict, match="in use"):
        workspace.layers.load(layer.id)
    layer.close()
    assert other.lock()
    other.discard()
    assert not layer.lock()


# -- the end


def test_a_layer_that_is_discarded_is_gone_at_once(workspace: LayerWorkspace, layer: Layer) -> None:
    layer.hold()
    workspace.run("mkdir d; touch d/x", workspace.make_task(layer=layer))
    layer.discard()
    layer.discard()
    assert not workspace.layers.exists(layer.id)
    assert workspace.layers.list() == []
    workspace.launcher.close()  # waits for what is done later
    assert os.listdir(workspace.layers.folder) == []


CLOSED = {
    "folders without permissions": "mkdir -p a/b/c; touch a/b/c/x; chmod 000 a/b/c a/b a",
    "folders that may only be read": "mkdir -p a/b; touch a/b/x; chmod 555 a/b a",
    "files without permissions": "touch x; chmod 000 x; ln -s x l; mkfifo p",
    "in a folder that was there": "chmod 500 there; touch there/x || chmod 700 there; rm -rf there/*; chmod 000 there",
    "the top": "touch x; chmod 000 .",
    "deep": 'python3 -c \'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(3000)]; os.chmod(".", 0)\'',
}


@pytest.mark.parametrize("name", CLOSED)
def test_whatever_a_command_closed_is_removed(workspace: LayerWorkspace, name: str) -> None:
    (workspace.folder / "there/below").mkdir(parents=True)
    layer = workspace.layers.create()
    workspace.run(CLOSED[name], workspace.make_task(layer=layer))
    remove_tree(layer.folder)
    assert not os.path.exists(layer.folder)


def test_removing_follows_no_link(workspace: LayerWorkspace, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o700)
    (tmp_path / "outside/kept").touch()
    layer = workspace.layers.create()
    script = f"mkdir a; ln -s {tmp_path}/outside a/l; ln -s {tmp_path}/outside/kept a/k; chmod 500 a"
    workspace.run(script, workspace.make_task(layer=layer))
    remove_tree(layer.folder)
    assert (tmp_path / "outside/kept").exists()


def test_what_a_crash_left_is_removed(workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = workspace.layers.create()
    folder = Path(workspace.layers.folder)
    (folder / "removed-layer_x/upper").mkdir(parents=True)
    (folder / "layer_unfinished/upper").mkdir(parents=True)
    workspace.layers.remove_leftovers()
    assert sorted(os.listdir(folder)) == sorted([kept.id, "layer_unfinished"]), "it may just be made"
    monkeypatch.setattr(layer_module, "UNFINISHED_SECONDS", -1.0)
    workspace.layers.remove_leftovers()
    assert os.listdir(folder) == [kept.id]
    kept.discard()


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, NoSpace), (errno.EDQUOT, NoSpace), (errno.EROFS, ProviderUnavailable)]
)
def test_a_layer_that_cannot_be_made(
    workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", fail)
    with pytest.raises(error, match=r"nothing was (run|changed)"):
        workspace.layers.create()
