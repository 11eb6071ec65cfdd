"""What a command changed, read from real overlays: a setting of the workspace, a script, and its changes."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.layer_workspace import LayerWorkspace, describe
from wap_kernel.model.changes import ABSENT, ChangeKind
from wap_kernel.model.errors import TooLarge
from wap_kernel.providers.layers import change_reader
from wap_kernel.providers.layers.change_reader import read_changes, read_upper_file

BEFORE = {
    "file": "content\n",
    "other": "other\n",
    "script": "#!/bin/sh\n",
    "a/one": "1\n",
    "a/two": "2\n",
    "a/b/three": "3\n",
    "a/b/c/four": "4\n",
    "z/last": "z\n",
}


@pytest.fixture
def filled(workspace: LayerWorkspace) -> LayerWorkspace:
    for name, text in BEFORE.items():
        path = workspace.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (workspace.folder / "script").chmod(0o755)
    (workspace.folder / "link").symlink_to("file")
    return workspace


def changed(workspace: LayerWorkspace, script: str) -> list[str]:
    return describe(workspace.run_on_layer(script))


CASES: dict[str, tuple[str, list[str]]] = {
    # nothing
    "nothing": ("true", []),
    "reading": ("cat file a/one; ls -lR; find . -newer file", []),
    "made and removed": ("mkdir -p new/deep; touch new/deep/x; rm -r new", []),
    "written as it was": ("cp -p file t; cat t > file; touch -r t file; rm t", []),
    "moved away and back": ("mv file x; mv x file", []),
    "removed and made again": ("cp -p file x; rm file; mv x file", []),
    "a mode and back": ("chmod 600 file a; chmod 644 file; chmod 755 a", []),
    # files
    "a file": ("echo x > new", ["created new"]),
    "a file in a folder": ("echo x > a/b/new", ["created a/b/new"]),
    "more content": ("echo x >> file", ["changed file"]),
    "other content of the same size": ("echo CONTENT > file", ["changed file"]),
    "one byte": ("printf X | dd of=file bs=1 seek=3 conv=notrunc status=none", ["changed file"]),
    "emptied": (": > file", ["changed file"]),
    "replaced by rename": ("cp -p other x; mv x file", ["changed file"]),
    "removed": ("rm file", ["deleted file"]),
    "a file that moved": ("mv file new", ["deleted file", "created new"]),
    "over another": ("mv file other", ["deleted file", "changed other"]),
    "exchanged": ("mv file x; mv other file; mv x other", ["changed file", "changed other"]),
    "a mode": ("chmod 600 file", ["mode file"]),
    "a mode and content": ("chmod 600 file; echo x > file", ["changed file"]),
    "touched": ("touch -d 2001-01-01 file", ["touched file"]),
    "written at another time": ("cp file t; sleep 0.02; cat t > file; rm t", ["touched file"]),
    "a hard link": ("ln file hard", ["created hard"]),
    "a hard link that was written": ("ln file hard; echo x >> hard", ["changed file", "created hard"]),
    # links
    "a link": ("ln -s nowhere new", ["created new"]),
    "another target": ("ln -sf other link", ["changed link"]),
    "the same target": ("ln -sf file x; mv x link", []),
    "a link becomes a file": ("rm link; echo x > link", ["changed link"]),
    "a file becomes a link": ("rm file; ln -s other file", ["changed file"]),
    "a link is removed": ("rm link", ["deleted link"]),
    # folders
    "a folder": ("mkdir new", ["created new"]),
    "folders with content": (
        "mkdir -p n/m; echo x > n/m/x; ln -s m n/l",
        ["created n", "created n/l", "created n/m", "created n/m/x"],
    ),
    "a mode of a folder": ("chmod 700 a/b", ["mode a/b"]),
    "the mode of the workspace": ("chmod 701 .", ["mode ."]),
    "a folder removed": ("rm -r a/b", ["deleted a/b", "deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three"]),
    "a folder emptied": ("rm -r a/b/*", ["deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three"]),
    "a folder made anew": (
        "rm -r a/b; mkdir a/b; echo new > a/b/new; echo 3 > a/b/three",
        ["deleted a/b/c", "deleted a/b/c/four", "created a/b/new", "touched a/b/three"],
    ),
    "a folder made anew below one": (
        "rm -r a; mkdir -p a/b; echo x > a/b/x",
        ["deleted a/one", "deleted a/two", "deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three", "created a/b/x"],
    ),
    "a folder becomes a file": (
        "rm -r a/b; echo x > a/b",
        ["deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three", "changed a/b"],
    ),
    "a folder becomes a link": ("rm -r z; ln -s a z", ["deleted z/last", "changed z"]),
    "a file becomes a folder": ("rm file; mkdir file; touch file/x", ["changed file", "created file/x"]),
    "a link becomes a folder": ("rm link; mkdir link; touch link/x", ["changed link", "created link/x"]),
    "a folder becomes a file and a folder again": (
        "rm -r z; echo x > z; rm z; mkdir z; echo z > z/last; echo n > z/new",
        ["touched z/last", "created z/new"],
    ),
    "a file becomes a folder and a file again": ("rm file; mkdir file; rmdir file; echo x > file", ["changed file"]),
    # names
    "odd names": (
        "touch $'new\\nline' $'\\xff' '*' -- '-x'; mkdir '...'; touch .../x",
        ["created *", "created -x", "created ...", "created .../x", "created new\nline", "created \udcff"],
    ),
}  # fmt: skip


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


# -- folders that moved: only root gets to know, for others the kernel refuses and `mv` copies

MOVES: dict[str, tuple[str, list[str]]] = {
    "a folder": ("mv a new", ["moved new from a"]),
    "into another": ("mv a/b z/b", ["moved z/b from a/b"]),
    "out of another": ("mv a/b/c c", ["moved c from a/b/c"]),
    "twice": ("mv a x; mv x y", ["moved y from a"]),
    "there and back": ("mv a x; mv x a", []),
    "with changes in it": ("mv a x; echo n > x/new; rm x/one", ["moved x from a", "created x/new", "deleted x/one"]),
    "with changes before": ("echo n > a/new; rm a/one; mv a x", ["moved x from a", "created x/new", "deleted x/one"]),
    "one in the other": ("mv a/b/c z/c; mv a/b z/b", ["moved z/c from a/b/c", "moved z/b from a/b"]),
    "a folder in a moved folder": ("mv a x; mv x/b y", ["moved x from a", "moved y from a/b"]),
    "renamed within a moved folder": ("mv a x; mv x/b x/y", ["moved x from a", "moved x/y from a/b"]),
    "into a new one": ("mkdir new; mv a new/a", ["created new", "moved new/a from a"]),
    "another takes its path": ("mv a x; mv z a", ["moved a from z", "moved x from a"]),
    "a new one takes its path": ("mv a x; mkdir a; echo n > a/new", ["created a", "created a/new", "moved x from a"]),
    "a file takes its path": ("mv a x; echo n > a", ["created a", "moved x from a"]),
    "exchanged": ("mv a x; mv z a; mv x z", ["moved a from z", "moved z from a"]),
    "its mode": ("mv a x; chmod 700 x", ["moved x from a"]),
    "moved and removed": (
        "mv z x; rm -r x",
        ["deleted z", "deleted z/last"],
    ),
    "over a removed folder": ("rm -r z; mv a z", ["deleted z", "deleted z/last", "moved z from a"]),
    "over a removed file": ("rm file; mv z file", ["deleted file", "moved file from z"]),
    "over a folder in a moved one": (
        "mv a x; rm -r x/b/c; mv z x/b/c",
        ["moved x from a", "deleted x/b/c", "deleted x/b/c/four", "moved x/b/c from z"],
    ),
    "away and back below a moved one": ("mv a x; mv x/b y; mv y x/b", ["moved x from a"]),
}


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
    monkeypatch.setattr(change_reader, "MAX_CHANGES", 10)
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
