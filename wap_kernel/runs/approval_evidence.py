"""Collect the evidence that an approval is bound to: the operation, and the state of the paths that it would change.

Links are resolved. The evidence of a folder is a hash of its entries. The evidence of a command includes the files of
the workspace that it names, so that a script which is swapped after the approval was shown is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from posixpath import normpath

from wap_kernel.files import content_hash
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.files.tree_walk import iterate_entries, open_real_folder, walk_tree
from wap_kernel.git.remote import preview
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.git.operations import GitTransfer
from wap_kernel.model.operations import DeleteFile, ModifyFile, Operation, RunCommand, WriteFile
from wap_kernel.model.paths import join_path
from wap_kernel.model.run import Approval
from wap_kernel.policy.shell.parser import parse_command

ABSENT = "absent"
MAX_COMMAND_WORDS = 50
"""Words of a command that may be looked up as paths."""
MAX_HASHED_BYTES = 16 * 1024 * 1024
MAX_FOLDER_ENTRIES = 20_000
FOLDER_SECONDS = 5.0


def digest_operation(operation: Operation) -> str:
    return hashlib.sha256(f"{operation.kind} {operation.model_dump_json()}".encode()).hexdigest()


def collect_evidence(files: Files, operation: Operation) -> dict[str, str]:
    """Return the real path and the state of each path of the operation, by the path as the operation names it."""
    evidence = {
        access.path: _describe_path(files, access.path, follow=access.follow, operation=operation)
        for access in operation.path_accesses()
    }
    for path in _paths_in_command(operation):
        state = _describe_path(files, path, follow=True, operation=operation)
        if not state.endswith(ABSENT):
            evidence.setdefault(path, state)
    return evidence


def changed_paths(before: Mapping[str, str | None], now: Mapping[str, str]) -> list[str]:
    return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))


def bind_operation(operation: Operation, approval: Approval) -> Operation:
    """Return the operation bound to what the approval showed: at the real path, failing if the file is another."""
    if isinstance(operation, GitTransfer):
        return preview.bind_evidence(operation, approval.files)
    if not isinstance(operation, WriteFile | ModifyFile | DeleteFile):
        return operation
    real, _, content = str(approval.files.get(operation.path) or "").rpartition(" ")
    update: dict[str, object] = {"path": real} if real else {}
    if content.startswith("sha256:") and operation.expected_hash is None:
        update["expected_hash"] = content
    elif content == ABSENT and isinstance(operation, WriteFile) and operation.mode == "overwrite":
        update["mode"] = "create"
    return operation.model_copy(update=update)


def _describe_path(files: Files, path: str, *, follow: bool, operation: Operation) -> str:
    try:
        real = files.resolve(path, follow=follow)
    except (OSError, WapError):
        return ABSENT
    try:
        stat = files.stat(real, follow=False)
        if stat.kind is FileKind.FOLDER:
            is_cwd = isinstance(operation, RunCommand)
            return f"{real} {'folder' if is_cwd else _hash_folder(files, real)}"
        if stat.kind is not FileKind.FILE or stat.size > MAX_HASHED_BYTES:
            return f"{real} {stat.kind.value}:{stat.size}:{stat.mtime_ns}"
        return f"{real} {content_hash.hash_file(files, real)}"
    except (OSError, WapError):
        return f"{real} {ABSENT}"


def _hash_folder(files: Files, path: str) -> str:
    """Return a hash of the names, sizes and times below a folder; a very large folder is hashed in part."""
    entries: list[str] = []
    start = open_real_folder(files, path)
    if start is not None:
        deadline = Deadline(FOLDER_SECONDS)
        for level in walk_tree(files, start):
            for entry in iterate_entries(level.folder, deadline):
                if entry.is_dir(follow_symlinks=False):
                    level.pending.append(entry.name)
                stat = level.folder.stat(entry.name)
                entries.append(
                    f"{join_path(level.folder.path, entry.name)}\0{stat.kind.value}\0{stat.size}\0{stat.mtime_ns}"
                )
            if len(entries) > MAX_FOLDER_ENTRIES:
                break
    listed = "\0\0".join(sorted(entries))
    return f"folder:{hashlib.sha256(listed.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _paths_in_command(operation: Operation) -> Iterator[str]:
    """Yield the paths of the workspace that the words of a command line may name."""
    if not isinstance(operation, RunCommand):
        return
    words = (word.literal for command in parse_command(operation.line).commands for word in command.words)
    literal = [word for word in words if word and not word.startswith("-") and "\0" not in word]
    for word in literal[:MAX_COMMAND_WORDS]:
        if not word.startswith(("/", "~")):
            path = normpath(join_path(operation.cwd, word))
            if not path.startswith(".."):
                yield path
