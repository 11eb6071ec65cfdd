"""What an agreement is bound to: the operation, and what stands where it would act, links resolved, when it was shown.

A folder is told by what is in it, a command also by the files of the workspace that it names, so that a script which is
swapped after the question was asked is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from posixpath import normpath

from wap_kernel.files import content_hash
from wap_kernel.files.interface import Files, Kind
from wap_kernel.files.tree_walk import open_real, walk, watched
from wap_kernel.git.remote import preview
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import DeleteFile, GitTransfer, ModifyFile, Operation, RunCommand, WriteFile
from wap_kernel.model.paths import join
from wap_kernel.model.run import Approval
from wap_kernel.policy.shell.parser import parse

ABSENT = "absent"
MAX_WORDS = 50
"""Words of a command that are looked up."""
MAX_HASHED = 16 * 1024 * 1024
MAX_ENTRIES = 20_000
SECONDS = 5.0


def digest_of(operation: Operation) -> str:
    return hashlib.sha256(f"{operation.kind} {operation.model_dump_json()}".encode()).hexdigest()


def gather(files: Files, operation: Operation) -> dict[str, str]:
    """By path as the operation names it: where that really is, and what stands there."""
    found = {
        touch.path: _state(files, touch.path, follow=touch.follow, operation=operation)
        for touch in operation.path_accesses()
    }
    for path in _named(operation):
        state = _state(files, path, follow=True, operation=operation)
        if not state.endswith(ABSENT):
            found.setdefault(path, state)
    return found


def changed(before: Mapping[str, str | None], now: Mapping[str, str]) -> list[str]:
    return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))


def bound(operation: Operation, approval: Approval) -> Operation:
    """The operation as it was agreed to: at the place that was shown, and failing if another file stands there."""
    if isinstance(operation, GitTransfer):
        return preview.bound(operation, approval.files)
    if not isinstance(operation, WriteFile | ModifyFile | DeleteFile):
        return operation
    place, _, content = str(approval.files.get(operation.path) or "").rpartition(" ")
    update: dict[str, object] = {"path": place} if place else {}
    if content.startswith("sha256:") and operation.expected_hash is None:
        update["expected_hash"] = content
    elif content == ABSENT and isinstance(operation, WriteFile) and operation.mode == "overwrite":
        update["mode"] = "create"
    return operation.model_copy(update=update)


def _state(files: Files, path: str, *, follow: bool, operation: Operation) -> str:
    try:
        real = files.resolve(path, follow=follow)
    except (OSError, WapError):
        return ABSENT
    try:
        stat = files.stat(real, follow=False)
        if stat.kind is Kind.FOLDER:
            is_place = isinstance(operation, RunCommand)
            return f"{real} {'folder' if is_place else _tree(files, real)}"
        if stat.kind is not Kind.FILE or stat.size > MAX_HASHED:
            return f"{real} {stat.kind.value}:{stat.size}:{stat.mtime_ns}"
        return f"{real} {content_hash.of_file(files, real)}"
    except (OSError, WapError):
        return f"{real} {ABSENT}"


def _tree(files: Files, path: str) -> str:
    """A hash of the names, sizes and times below a folder; of the first of them where there are very many."""
    entries: list[str] = []
    start = open_real(files, path)
    if start is not None:
        deadline = Deadline(SECONDS)
        for level in walk(files, start):
            for entry in watched(level.folder, deadline):
                if entry.is_dir(follow_symlinks=False):
                    level.pending.append(entry.name)
                stat = level.folder.stat(entry.name)
                entries.append(
                    f"{join(level.folder.path, entry.name)}\0{stat.kind.value}\0{stat.size}\0{stat.mtime_ns}"
                )
            if len(entries) > MAX_ENTRIES:
                break
    listed = "\0\0".join(sorted(entries))
    return f"folder:{hashlib.sha256(listed.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _named(operation: Operation) -> Iterator[str]:
    """Paths that the words of a command line may stand for."""
    if not isinstance(operation, RunCommand):
        return
    words = (word.literal for command in parse(operation.line).commands for word in command.words)
    literal = [word for word in words if word and not word.startswith("-") and "\0" not in word]
    for word in literal[:MAX_WORDS]:
        if not word.startswith(("/", "~")):
            path = normpath(join(operation.cwd, word))
            if not path.startswith(".."):
                yield path
