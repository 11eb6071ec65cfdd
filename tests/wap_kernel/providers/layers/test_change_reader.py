"""What a command changed, read from real overlays: a setting of the workspace, a script, and its changes."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.layer_cases import CASES, MOVES, fill
from tests.support.layer_workspace import LayerWorkspace, describe
from wap_kernel.model.changes import ABSENT, ChangeKind
from wap_kernel.model.errors import PermissionDenied, TooLarge
from wap_kernel.providers.layers import change_reader
from wap_kernel.providers.layers.change_reader import read_changes, read_upper_file


@pytest.fixture
def filled(workspace: LayerWorkspace) -> LayerWorkspace:
    fill(workspace.folder)
    return workspace


def changed(workspace: LayerWorkspace, script: str) -> list[str]:
    return describe(workspace.run_on_layer(script))


@pytest.mark.parametrize("name", CASES)
def test_changes(filled: LayerWorkspace, name: str) -> None:
    script, expected = CASES[name]
    assert sorted(changed(filled, script)) == sorted(expected)


def test_folders_stand_before_what_is_in_them(filled: LayerWorkspace) -> None:
    changes = filled.run_on_layer("rm -r a; mkdir -p n/m/o; touch n/m/o/x n/y")
    seen: set[str] = set()
    for change in changes:
        parent = change.path.rpartition("/")[0]
        assert not parent or parent in seen or not any(other.path == parent for other in changes)
        seen.add(change.path)


@pytest.mark.parametrize("name", MOVES)
def test_moves(filled: LayerWorkspace, name: str) -> None:
    script, expected = MOVES[name]
    if filled.launcher.user_namespace:
        assert not any(line.startswith("moved") for line in changed(filled, script))
    else:
        assert sorted(changed(filled, script)) == sorted(expected)


def test_the_mode_of_a_moved_folder(filled: LayerWorkspace) -> None:
    if filled.launcher.user_namespace:
        pytest.skip("a folder that moves is copied")
    (change,) = filled.run_on_layer("mv a x; chmod 700 x")
    assert (change.before.mode, change.after.mode) == (0o755, 0o700)


# -- images


def test_the_images_of_a_change(filled: LayerWorkspace) -> None:
    status = (filled.folder / "file").stat()
    changes = {
        change.path: change
        for change in filled.run_on_layer("echo longer >> file; chmod 600 file; ln -sf other link; rm a/one; mkdir n")
    }
    file = changes["file"]
    assert (file.before.kind, file.before.mode, file.before.size) == ("file", stat.S_IMODE(status.st_mode), 8)
    assert file.before.stamp == f"{status.st_ino}:8:{status.st_mtime_ns}"
    assert (file.after.kind, file.after.mode, file.after.size) == ("file", 0o600, 15)
    assert file.after.stamp is not None and file.after.stamp != file.before.stamp
    assert (changes["link"].before.target, changes["link"].after.target) == ("file", "other")
    assert (changes["a/one"].before.kind, changes["a/one"].after) == ("file", ABSENT)
    assert (changes["n"].before, changes["n"].after.kind) == (ABSENT, "folder")


def test_special_files(workspace: LayerWorkspace) -> None:
    (workspace.folder / "was a file").touch()
    script = "mkfifo pipe; rm 'was a file'; mkfifo 'was a file'"
    changes = {change.path: change for change in workspace.run_on_layer(script)}
    assert {path: (change.kind, change.after.kind) for path, change in changes.items()} == {
        "pipe": (ChangeKind.CREATED, "special"),
        "was a file": (ChangeKind.CHANGED, "special"),
    }


def test_permissions_that_keep_the_owner_out(filled: LayerWorkspace) -> None:
    script = "mkdir n; echo x > n/x; chmod 000 n/x n; echo y > a/y; chmod 000 a/y; chmod 111 a"
    assert changed(filled, script) == ["mode a", "created a/y", "created n", "created n/x"]
    assert filled.layers.list() == []


def test_a_file_that_cannot_be_read_counts_as_changed(filled: LayerWorkspace) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    assert changed(filled, "chmod 000 file; chmod 000 other; touch other") == ["changed file", "changed other"]


def test_what_was_there_is_not_followed_where_links_lead(filled: LayerWorkspace, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    (filled.folder / "out").symlink_to(tmp_path / "outside")
    script = f"rm out; mkdir out; touch out/secret; rm -r z; ln -s {tmp_path / 'outside'} z"
    assert changed(filled, script) == ["changed out", "created out/secret", "deleted z/last", "changed z"]


def test_what_a_person_changed_meanwhile(filled: LayerWorkspace) -> None:
    """The changes are those against the workspace as it is now."""
    layer = filled.layers.create()
    filled.run("echo x > file; rm other; echo y > new; rm -r z", filled.make_task(layer=layer))
    (filled.folder / "file").write_text("x\n")
    (filled.folder / "other").unlink()
    (filled.folder / "new").write_text("saved")
    (filled.folder / "z/added").write_text("saved")
    assert describe(layer.read_changes()) == [
        "touched file",
        "changed new",
        "deleted z",
        "deleted z/added",
        "deleted z/last",
    ]
    layer.discard()


def test_twenty_thousand_files(workspace: LayerWorkspace) -> None:
    (workspace.folder / "gone").mkdir()
    for number in range(10_000):
        (workspace.folder / f"gone/{number}").touch()
    script = "rm -r gone; mkdir new; cd new; for n in {1..10000}; do : > $n; done"
    changes = workspace.run_on_layer(script)
    assert len(changes) == 20_002
    assert sum(change.kind is ChangeKind.DELETED for change in changes) == 10_001


def test_more_changes_than_are_read(workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_reader, "MAX_CHANGED_PATHS", 10)
    assert len(workspace.run_on_layer("touch {1..10}")) == 10
    with pytest.raises(TooLarge, match="more than 10 files"):
        workspace.run_on_layer("touch {1..11}")


NESTED = 'python3 -c \'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range({})]\''


def test_a_deep_tree(workspace: LayerWorkspace) -> None:
    assert len(workspace.run_on_layer(NESTED.format(150))) == 150


def test_a_tree_that_is_too_deep(workspace: LayerWorkspace) -> None:
    """Deeper than a path can name, and than descriptors and Python's stack suffice for."""
    with pytest.raises(TooLarge, match="nested more than 200 deep"):
        workspace.run_on_layer(NESTED.format(3000))
    workspace.launcher.close()  # waits for what is done later
    assert os.listdir(workspace.layers.folder) == []


def test_a_tree_that_was_too_deep_and_is_deleted(workspace: LayerWorkspace) -> None:
    subprocess.run(["bash", "-c", NESTED.format(500)], cwd=workspace.folder, check=True)
    with pytest.raises(TooLarge, match="nested more than 200 deep"):
        workspace.run_on_layer("rm -r d")
    with pytest.raises(TooLarge, match="nested more than 200 deep"):
        workspace.run_on_layer('python3 -c \'import os; [os.chdir("d") for _ in range(500)]; open("x", "w")\'')
    assert describe(workspace.run_on_layer("touch d/d/x")) == ["created d/d/x"]


# -- single files of an upper folder


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("file", b"content"),
        ("folder/file", b"below"),
        ("closed/file", b"closed"),
        ("missing", None),
        ("link", None),
        ("way out/secret", None),
        ("pipe", None),
        ("folder", None),
        ("large", None),
    ],
)
def test_a_file_of_an_upper_folder(tmp_path: Path, path: str, expected: bytes | None) -> None:
    upper = tmp_path / "upper"
    for name, text in {"file": "content", "folder/file": "below", "closed/file": "closed", "large": "x" * 11}.items():
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).write_text(text)
    (upper / "closed").chmod(0o000)
    (upper / "link").symlink_to("file")
    (upper / "way out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(upper / "pipe")
    assert read_upper_file(str(upper), path, 10) == expected


def test_attributes_of_another_kind_are_not_believed(tmp_path: Path) -> None:
    """A command can set `user.` attributes itself; where the kernel uses others, they mean nothing."""
    upper, root = tmp_path / "upper", tmp_path / "root"
    for folder in (upper / "a", root / "a", root / "b"):
        folder.mkdir(parents=True)
    (root / "a/file").touch()
    (root / "b/file").touch()
    for name, value in (("redirect", b"/b"), ("opaque", b"y")):
        os.setxattr(upper / "a", f"user.overlay.{name}", value)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        assert describe(read_changes(str(upper), descriptor, "trusted.overlay.")) == []
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("value", [b"/../outside", b"..", b"/link/x", b"/no/such", b"", b"/"])
def test_a_redirection_that_leads_nowhere(tmp_path: Path, value: bytes) -> None:
    """In a user namespace the kernel itself never sets one, and a command may not: it sees none of these attributes."""
    upper, root = tmp_path / "upper", tmp_path / "root"
    (upper / "a").mkdir(parents=True)
    (root / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    os.setxattr(upper / "a", "user.overlay.redirect", value)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        found = describe(read_changes(str(upper), descriptor, "user.overlay."))
    finally:
        os.close(descriptor)
    assert not any("outside" in line or "from" in line for line in found)


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400])
def test_a_folder_of_the_workspace_that_is_closed_to_its_owner(filled: LayerWorkspace, mode: int) -> None:
    """It can be opened; more cannot be judged, for nobody knows what is in it."""
    (filled.folder / "a").chmod(mode)
    assert changed(filled, "chmod 755 a") == ["mode a"]
    if os.geteuid() != 0:
        with pytest.raises(PermissionDenied, match="may not read or enter"):
            filled.run_on_layer("chmod 700 a; rm -r a")
    (filled.folder / "a").chmod(0o755)


def test_a_path_that_is_too_long(filled: LayerWorkspace) -> None:
    with pytest.raises(TooLarge, match="bytes"):
        filled.run_on_layer(f"for n in {{1..40}}; do mkdir {'d' * 100}; cd -P {'d' * 100}; done; touch x")
