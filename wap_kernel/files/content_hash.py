"""Hash the content of files and check it against `expectedHash`, for optimistic concurrency."""

from __future__ import annotations

import hashlib

from wap_kernel.files.interface import Files, Stat
from wap_kernel.model.errors import Conflict, TooLarge
from wap_kernel.model.hints import OMIT_EXPECTED_HASH
from wap_kernel.model.limits import MAX_HASHED_BYTES

CHUNK = 1024 * 1024
HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"


def hash_bytes(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def hash_file(files: Files, path: str) -> str:
    return stat_and_hash_file(files, path)[1]


def stat_and_hash_file(files: Files, path: str) -> tuple[Stat, str]:
    """Return the hash of a file, and its stat from before it was read, by which a later save is noticed."""
    digest = hashlib.sha256()
    with files.open(path) as file:
        if file.stat.size > MAX_HASHED_BYTES:
            raise TooLarge(f"Files over {MAX_HASHED_BYTES} bytes are not hashed: {path}", hint=OMIT_EXPECTED_HASH)
        while chunk := file.read(CHUNK):
            digest.update(chunk)
        return file.stat, f"sha256:{digest.hexdigest()}"


def check_hash(expected: str | None, current: str | None, path: str) -> None:
    """Raise Conflict if the file differs from what the caller read; `current` is None if there is no file."""
    if expected is None or expected == current:
        return
    if current is None:
        raise Conflict(f"The file no longer exists: {path}", hint="List the folder again before you write.", path=path)
    raise Conflict(
        f"The file has changed since it was read: {path}",
        hint="Read it again and repeat the change on what it holds now.",
        path=path,
        currentHash=current,
    )
