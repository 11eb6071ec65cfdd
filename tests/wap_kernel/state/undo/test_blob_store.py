"""The store of before-images: by hash, once, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files.contained.handles import LocalFile
from wap_kernel.model.errors import NoSpace
from wap_kernel.state.undo import blob_store as module
from wap_kernel.state.undo.blob_store import CHUNK, BlobStore


def opened(path: Path) -> LocalFile:
    return LocalFile(os.open(path, os.O_RDONLY), path.name)


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_content_is_kept_once_by_its_hash_and_read_back(tmp_path: Path, size: int) -> None:
    blobs = BlobStore(str(tmp_path))
    data = os.urandom(size)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(data)
        with opened(tmp_path / name) as file:
            kept = blobs.keep(file, 4 * CHUNK)
        assert kept is not None and kept == (hashlib.sha256(data).hexdigest(), size)
    (stored,) = blobs.all()
    assert (stored.digest, stored.size) == kept
    assert stat.S_IMODE(os.stat(stored.path).st_mode) == 0o600
    assert os.path.relpath(stored.path, tmp_path) == f"blobs/{kept.digest[:2]}/{kept.digest[2:]}"
    assert blobs.read(kept.digest) == data


@pytest.mark.parametrize("size", [11, CHUNK + 1])
def test_what_is_larger_than_the_limit_is_not_kept_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    blobs = BlobStore(str(tmp_path))
    (tmp_path / "f").write_bytes(b"x" * size)
    with opened(tmp_path / "f") as file:
        assert blobs.keep(file, size - 1) is None
    assert list(blobs.all()) == []


def test_a_file_that_grows_is_kept_as_it_is_when_it_is_read(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path))
    (tmp_path / "f").write_bytes(b"x")
    with opened(tmp_path / "f") as file:
        (tmp_path / "f").write_bytes(b"xyz")
        kept = blobs.keep(file, 10)
    assert kept is not None and blobs.read(kept.digest) == b"xyz"


def test_a_damaged_or_cut_content_is_not_given_out_and_is_stored_again(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path))
    digest, size = blobs.put(b"content")
    (stored,) = blobs.all()
    Path(stored.path).write_bytes(b"")
    assert blobs.read(digest) is None and not blobs.mark_used(digest, size)
    blobs.put(b"content")
    assert blobs.read(digest) == b"content"
    assert blobs.read("0" * 64) is None


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = BlobStore(str(tmp_path))

    def full(descriptor: int, data: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(module, "write_all", full)
    with pytest.raises(NoSpace):
        blobs.put(b"content")
    assert list(blobs.all()) == []


def test_only_what_nobody_has_used_for_a_while_is_removed(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path))
    kept = blobs.put(b"content")
    leftover = Path(blobs.folder) / f"{module.TEMPORARY}0"
    leftover.write_bytes(b"of a crash")
    for stored in blobs.all():
        assert blobs.remove(stored) == 0
        os.utime(stored.path, (0, 0))
    old = {stored.digest: stored for stored in blobs.all()}
    assert blobs.mark_used(*kept)
    assert blobs.remove(old[kept.digest]) == 0
    assert blobs.remove(old[None]) == len(b"of a crash")
    assert [stored.digest for stored in blobs.all()] == [kept.digest]


def test_many_writers_of_the_same_content_do_not_disturb_each_other(tmp_path: Path) -> None:
    kept: list[Any] = []
    threads = [
        threading.Thread(target=lambda: kept.extend(BlobStore(str(tmp_path)).put(bytes([n])) for n in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 200 and len(list(BlobStore(str(tmp_path)).all())) == 50
