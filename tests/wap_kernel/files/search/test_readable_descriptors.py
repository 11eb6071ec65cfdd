"""What rg may read: everything but what is hidden, with a descriptor or two open at a time."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.file_trees import grow
from wap_kernel.files.search import readable_descriptors as module
from wap_kernel.files.search.readable_descriptors import iterate_readable
from wap_kernel.policy.paths.protected import ProtectedPaths

HIDING = ProtectedPaths(hidden=frozenset({("a", "b", "secret"), ("state",)}), read_only=frozenset())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    grow(tmp_path, {"a": {"b": {"secret": {"f": b""}, "open": b""}, "c": {}}, "state": {}, "top": b"", "z": {"y": b""}})
    (tmp_path / "link").symlink_to("state")
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def name_of(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


def test_nothing_hidden_is_all_of_the_root(folder: int) -> None:
    assert list(iterate_readable(folder, ProtectedPaths(frozenset(), frozenset()))) == [folder]


def test_everything_but_what_is_hidden(folder: int) -> None:
    assert sorted(map(name_of, iterate_readable(folder, HIDING))) == ["c", "open", "top", "z"]


def test_few_descriptors_at_a_time(folder: int, tmp_path: Path) -> None:
    grow(tmp_path, {f"f{number}": b"" for number in range(100)})
    before = len(os.listdir("/proc/self/fd"))
    assert max(len(os.listdir("/proc/self/fd")) for _ in iterate_readable(folder, HIDING)) <= before + 3
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENOTDIR])
def test_what_is_gone_is_left_out(folder: int, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    fail_to_open("top", number, monkeypatch)
    assert sorted(map(name_of, iterate_readable(folder, HIDING))) == ["c", "open", "z"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_other_errors_are_not_hidden(folder: int, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A search that leaves files out because the server ran out of descriptors would lie about its total."""
    fail_to_open("top", number, monkeypatch)
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        list(iterate_readable(folder, HIDING))


def fail_to_open(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.open

    def fail(path: str, flags: int, *, dir_fd: int) -> int:
        if path == name:
            raise OSError(number, os.strerror(number))
        return original(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(module.os, "open", fail)
