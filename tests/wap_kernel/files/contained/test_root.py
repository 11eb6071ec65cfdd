"""Containment: the path class of attacks, on openat2 and on the component walk."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.guards import NoJournal, OpenGuard
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind
from wap_kernel.model.errors import Code, WapError, translate_os_error

OUTSIDE_TEXT = b"outside"


@pytest.fixture
def tree(root: Root, tmp_path: Path) -> Path:
    """Links of every kind around one secret outside and one file inside."""
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    (tmp_path / "ws2").mkdir()
    (tmp_path / "ws2" / "secret").write_bytes(OUTSIDE_TEXT)
    (outside / "secret").write_bytes(OUTSIDE_TEXT)
    (ws / "dir" / "sub").mkdir(parents=True)
    (ws / "dir" / "file").write_bytes(b"inside")
    links = {
        "out-file": outside / "secret",
        "out-dir": outside,
        "out-relative": "../outside/secret",
        "out-dangling": outside / "not-there",
        "out-parent": "..",
        "out-deep": "dir/../../outside",
        "chain-out": "out-dir",
        "proc-root": "/proc/self/root",
        "proc-cwd": "/proc/self/cwd",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "self": "self",
        "in-file": "dir/file",
        "in-dir": "dir",
        "in-absolute": ws / "dir",
        "in-absolute-file": ws / "dir" / "file",
        "in-dangling": "dir/new",
        "dir/up": "..",
    }
    for name, target in links.items():
        (ws / name).symlink_to(target)
    return ws


ESCAPES = [
    "..",
    "not-there/../../outside/secret",
    "not-there/../../not-there-either",
    "../outside/secret",
    "../ws2/secret",
    "dir/../../outside/secret",
    "dir/../../ws/../outside/secret",
    "dir/sub/../../../outside/secret",
    "out-file",
    "out-dir/secret",
    "out-dir/not-there",
    "out-relative",
    "out-dangling",
    "out-parent/outside/secret",
    "out-deep/secret",
    "chain-out/secret",
    "proc-root/etc/passwd",
    "proc-cwd/anything",
    "in-dir/up/../outside/secret",
    "dir/up/out-dir/secret",
]

Act = Callable[[Root, str], object]


def read(root: Root, path: str) -> bytes:
    with root.open(path) as file:
        return file.read()


def names(root: Root, path: str) -> list[str]:
    with root.open_folder(path) as folder:
        return [entry.name for batch in folder.batches() for entry in batch]


READS: dict[str, Act] = {
    "open": read,
    "open_folder": names,
    "stat": lambda root, path: root.stat(path),
    "resolve": lambda root, path: root.resolve(path),
}
WRITES: dict[str, Act] = {
    "replace": lambda root, path: root.replace(path, b"evil"),
    "create": lambda root, path: root.replace(path, b"evil", exclusive=True),
    "append": lambda root, path: root.append(path, b"evil"),
    "mkdir": lambda root, path: root.mkdir(path, parents=True),
    "rename to": lambda root, path: root.rename("dir/file", path, overwrite=True),
    "rename from": lambda root, path: root.rename(path, "stolen"),
    "unlink": lambda root, path: root.unlink(path),
    "remove_tree": lambda root, path: root.remove_tree(path),
}


def snapshot(folder: Path) -> dict[str, object]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("act", READS)
def test_reading_never_leaves_the_root(root: Root, tree: Path, act: str, path: str) -> None:
    with pytest.raises(WapError) as caught:
        READS[act](root, path)
    assert caught.value.code is Code.PERMISSION_DENIED
    assert caught.value.message == f"The path leaves the workspace: {path}"


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("act", WRITES)
def test_changing_never_leaves_the_root(root: Root, tree: Path, tmp_path: Path, act: str, path: str) -> None:
    before = snapshot(tmp_path / "outside"), snapshot(tmp_path / "ws2"), set(os.listdir(tmp_path))
    try:
        WRITES[act](root, path)
    except WapError as error:
        assert error.code in (Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT)
    except OSError:
        # Acting on the link itself, which is inside, may fail in its own way (a link is no folder).
        assert not path.startswith("..")
    assert (snapshot(tmp_path / "outside"), snapshot(tmp_path / "ws2"), set(os.listdir(tmp_path))) == before


@pytest.mark.parametrize("path", ["in-file", "in-dir/file", "in-absolute/file", "in-absolute-file", "dir/up/in-file"])
def test_links_that_stay_inside_are_followed(root: Root, tree: Path, path: str) -> None:
    with root.open(path) as file:
        assert file.read() == b"inside"
        assert file.stat.path == "dir/file"
    assert root.stat(path).path == "dir/file"
    assert root.resolve(path) == "dir/file"


@pytest.mark.parametrize("path", ["in-file", "in-absolute-file", "in-absolute/file"])
def test_a_write_through_a_link_replaces_its_target_not_the_link(root: Root, tree: Path, path: str) -> None:
    root.replace(path, b"new")
    assert (tree / "dir" / "file").read_bytes() == b"new"
    assert (tree / "in-file").is_symlink()
    assert (tree / "in-absolute-file").is_symlink()


def test_a_write_to_a_dangling_link_that_stays_inside_makes_its_target(root: Root, tree: Path) -> None:
    root.replace("in-dangling", b"new")
    assert (tree / "dir" / "new").read_bytes() == b"new"
    assert (tree / "in-dangling").is_symlink()


@pytest.mark.parametrize("path", ["loop-a", "self", "loop-a/x"])
def test_link_loops_end(root: Root, tree: Path, path: str) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        root.open(path)


@pytest.mark.parametrize("name", ["out-file", "out-dir", "in-dir", "in-dangling", "self"])
def test_deleting_a_link_removes_the_link_only(root: Root, tree: Path, tmp_path: Path, name: str) -> None:
    before = snapshot(tmp_path / "outside"), snapshot(tree / "dir")
    root.unlink(name)
    assert not (tree / name).is_symlink()
    assert (snapshot(tmp_path / "outside"), snapshot(tree / "dir")) == before


def test_removing_a_folder_does_not_follow_links_in_it(root: Root, tree: Path, tmp_path: Path) -> None:
    (tree / "dir" / "sub" / "link").symlink_to(tmp_path / "outside")
    root.remove_tree("dir")
    assert not (tree / "dir").exists()
    assert (tmp_path / "outside" / "secret").read_bytes() == OUTSIDE_TEXT


@pytest.mark.parametrize("name", ["fifo", "socket"])
@pytest.mark.parametrize("act", ["open", "replace", "append"])
def test_special_files_are_refused_at_once(root: Root, tree: Path, name: str, act: str) -> None:
    if name == "fifo":
        os.mkfifo(tree / name)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(tree)  # the address of a socket is short
            server.bind(name)
            os.chdir(here)
    with pytest.raises((WapError, OSError)) as caught:
        (READS | WRITES)[act](root, name)
    error = caught.value if isinstance(caught.value, WapError) else translate_os_error(caught.value, name)
    assert error.code is Code.INVALID_ARGUMENT
    assert stat.S_ISFIFO(os.lstat(tree / name).st_mode) or stat.S_ISSOCK(os.lstat(tree / name).st_mode)


@pytest.mark.parametrize("path", [".", "./", "dir/..", "dir/sub/../..", "dir/./../."])
def test_the_root_by_other_names(root: Root, tree: Path, path: str) -> None:
    assert root.stat(path).path == "."
    assert root.stat(path).kind is FileKind.FOLDER
    assert root.open_folder(path).path == "."
    for act in ("replace", "unlink", "remove_tree", "rename from"):
        with pytest.raises(WapError, match="root itself"):
            WRITES[act](root, path)


def test_a_file_with_a_second_name_outside_keeps_that_content(root: Root, tree: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "secret", tree / "hard")
    root.replace("hard", b"new")
    assert (tmp_path / "outside" / "secret").read_bytes() == OUTSIDE_TEXT


def test_mode_is_kept_and_new_files_follow_the_umask(root: Root, tree: Path) -> None:
    (tree / "script").write_text("x")
    (tree / "script").chmod(0o755)
    root.replace("script", b"y")
    root.replace("fresh", b"z")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tree / "script").stat().st_mode) == 0o755
    assert stat.S_IMODE((tree / "fresh").stat().st_mode) == 0o666 & ~umask


def test_new_content_of_a_private_file_is_private_while_it_is_written(tree: Path) -> None:
    (tree / "key").write_text("old")
    (tree / "key").chmod(0o600)
    modes = []

    def record_modes(step: str) -> None:
        modes.extend(path.stat().st_mode & 0o777 for path in tree.glob(".wap-*"))

    watched = Root(str(tree), guard=OpenGuard(), journal=NoJournal(), step=record_modes)
    watched.replace("key", b"new")
    watched.close()
    assert set(modes) == {0o600}


def test_setuid_does_not_pass_to_new_content(root: Root, tree: Path) -> None:
    (tree / "tool").write_text("old")
    (tree / "tool").chmod(0o4755)
    root.replace("tool", b"new")
    assert stat.S_IMODE((tree / "tool").stat().st_mode) == 0o755


def test_a_write_is_durable(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is on the disk before it gets its name, and the name before the answer."""
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"))
    watched = Root(str(tree), guard=OpenGuard(), journal=NoJournal(), step=done.append)
    watched.replace("f", b"new")
    watched.close()
    assert done == ["noted", "created", "written", "file", "synced", "renamed", "folder", "folder synced", "forgotten"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mounted_file_system_is_neither_moved_nor_emptied(root: Root, tree: Path) -> None:
    (tree / "dir" / "mount").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tree / "dir" / "mount")]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no mounts here")
    try:
        (tree / "dir" / "mount" / "f").write_text("x")
        for act in (
            lambda: root.remove_tree("dir"),
            lambda: root.remove_tree("dir/mount"),
            lambda: root.rename("dir/mount", "elsewhere"),
            lambda: root.rename("dir/file", "dir/mount/file"),
        ):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the translation says more
                act()
            assert translate_os_error(caught.value, "x").code in (Code.CONFLICT, Code.INVALID_ARGUMENT)
        assert (tree / "dir" / "mount" / "f").exists()
    finally:
        subprocess.run(["umount", str(tree / "dir" / "mount")], check=True)


NORMAL_USER = """
    import os, sys
    from tests.support.guards import NoJournal, OpenGuard
    from wap_kernel.files.contained.root import Root
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    root = Root(sys.argv[1], guard=OpenGuard(), journal=NoJournal(), use_openat2=sys.argv[2] == "openat2")
    before = len(os.listdir("/dev/fd"))
    refused = 0
    for act in (lambda: root.replace("locked/f", b"x"), lambda: root.stat("locked/f"), lambda: root.open("locked/f"),
                lambda: root.replace("readonly", b"x"), lambda: root.append("readonly", b"x")):
        for _ in range(5):
            try:
                act()
            except PermissionError:
                refused += 1
    print(refused, len(os.listdir("/dev/fd")) - before)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_normal_user_is_refused_what_modes_forbid_and_leaks_nothing(root: Root, tree: Path) -> None:
    for folder in (tree, *tree.parents):
        if folder.stat().st_mode & 0o777 == 0o700:  # pytest's, above the tree
            folder.chmod(0o777)
    tree.chmod(0o777)
    (tree / "locked").mkdir(mode=0o744)
    (tree / "locked" / "f").write_text("x")
    (tree / "readonly").write_text("as it was")
    (tree / "readonly").chmod(0o444)
    way = "walk" if root._open_beneath is None else "openat2"
    script = textwrap.dedent(NORMAL_USER)
    done = subprocess.run([sys.executable, "-c", script, str(tree), way], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("25 0\n", "")
    assert (tree / "readonly").read_text() == "as it was"


def test_a_short_read_is_not_the_end_of_the_file(root: Root, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "f").write_bytes(bytes(range(256)) * 20)
    real_read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: real_read(fd, min(size, 1000)))
    with root.open("f") as file:
        assert file.read(4000) == (bytes(range(256)) * 20)[:4000]
    for size in (-1, 5120, 5121, 99999):
        with root.open("f") as file:
            assert file.read(size) == bytes(range(256)) * 20


def test_a_very_deep_path_through_a_link_is_refused_before_it_eats_descriptors(root: Root, tree: Path) -> None:
    deep = "/".join(["d"] * 400)
    (tree / deep).mkdir(parents=True)
    (tree / deep / "link").symlink_to("target")
    with pytest.raises(OSError, match="too long"):
        root.open(f"{deep}/link")


def test_exclusive_creation_and_renaming_never_overwrite(root: Root, tree: Path) -> None:
    with pytest.raises(FileExistsError):
        root.replace("dir/file", b"x", exclusive=True)
    root.replace("other", b"other")
    with pytest.raises(FileExistsError):
        root.rename("other", "dir/file")
    assert (tree / "dir" / "file").read_bytes() == b"inside"
    assert (tree / "other").read_bytes() == b"other"


def test_no_descriptor_is_left_open(root: Root, tree: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for act in (*READS.values(), *WRITES.values()):
        for path in ("dir/file", "dir", "in-dir/file", "in-dir/..", "out-dir/secret", "..", "nowhere/x", "loop-a"):
            (tree / "dir").mkdir(exist_ok=True)
            (tree / "dir" / "file").write_bytes(b"inside")
            with suppress(WapError, OSError):
                act(root, path)
    assert len(os.listdir("/dev/fd")) == before


def test_the_root_stays_the_same_folder_when_it_is_moved(root: Root, tree: Path, tmp_path: Path) -> None:
    tree.rename(tmp_path / "moved")
    (tmp_path / "ws").mkdir()
    with root.open("dir/file") as file:
        assert file.read() == b"inside"
    root.replace("new", b"x")
    assert (tmp_path / "moved" / "new").exists()
