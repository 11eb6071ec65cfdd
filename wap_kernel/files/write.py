"""Write, modify, delete, move and copy files under the locks of their paths; create folders."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wap_kernel.files import content_hash
from wap_kernel.files.edit import apply, unified_diff
from wap_kernel.files.interface import FileKind, Files, Locks, Stat
from wap_kernel.files.notebooks import validation
from wap_kernel.files.read import read_up_to
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import CellEdit
from wap_kernel.model.errors import (
    AlreadyExists,
    BinaryFile,
    FileNotFound,
    InvalidArgument,
    TooLarge,
    translate_os_error,
)
from wap_kernel.model.hints import CREATE_PARENT, DELETE_RECURSIVELY, WRITE_BASE64
from wap_kernel.model.limits import MAX_HASHED_BYTES
from wap_kernel.model.operations import CopyFile, CreateDirectory, DeleteFile, ModifyFile, MoveFile, WriteFile
from wap_kernel.model.paths import render_path, split_path
from wap_kernel.model.results import Limits, ModifyResult, PathResult, WriteResult

EDIT_SECONDS = 10.0
"""Seconds that all edits of one call may take."""
_OVERWRITE = "Pass overwrite: true to replace it."


class Writer:
    """The operations that change files."""

    def __init__(self, files: Files, locks: Locks, limits: Limits) -> None:
        self._files = files
        self._locks = locks
        self._limits = limits

    def write(self, operation: WriteFile) -> WriteResult:
        path, data = operation.path, operation.content
        is_append = operation.mode == "append"
        self._check_size(len(data), path)

        def check() -> None:
            content_hash.check_hash(operation.expected_hash, None, path)
            self._check_notebook(path, data, append=is_append)

        if operation.create_directories:
            self._make_parent(path, check)
        with translate_target_errors(path, 'Change it with modifyFile, or replace it with mode "overwrite".'):
            real = self._files.resolve(path)
            self._check_notebook(real, data, append=is_append)
            with self._locks.hold(real):
                expected = self._check_current(operation.expected_hash, path)
                if is_append:
                    stat = self._files.append(path, data)
                    known = content_hash.hash_file(self._files, path) if stat.size <= MAX_HASHED_BYTES else None
                else:
                    is_new = operation.mode == "create"
                    stat = self._files.replace(path, data, exclusive=is_new, expected=expected, atomic=operation.atomic)
                    known = content_hash.hash_bytes(data)
        return WriteResult(path=render_path(stat.path), bytes_written=len(data), hash=known)

    def modify(self, operation: ModifyFile) -> ModifyResult:
        path = operation.path
        with self._locks.hold(self._files.resolve(path)):
            old, stat = self._read(path)
            content_hash.check_hash(operation.expected_hash, content_hash.hash_bytes(old), path)
            if b"\0" in old:
                raise BinaryFile(f"The file is binary ({stat.size} bytes): {path}", hint=WRITE_BASE64)
            deadline = Deadline(EDIT_SECONDS)
            new = apply.apply_edits(old, operation.edits, max_size=self._limits.max_write_size, deadline=deadline)
            self._check_size(len(new), path)
            try:
                self._check_notebook(stat.path, new)
            except InvalidArgument as error:
                if any(isinstance(edit, CellEdit) for edit in operation.edits):  # which make no invalid cells
                    error.hint = "The notebook is invalid before the edit. Write it whole, or repair it in Jupyter."
                raise
            if new != old:
                self._files.replace(path, new, expected=stat)
        diff, cut = unified_diff.render_diff(render_path(stat.path), old, new)
        return ModifyResult(
            path=render_path(stat.path),
            hash=content_hash.hash_bytes(new),
            diff=diff,
            is_diff_truncated=cut or None,
            replacements=apply.count_replacements(old, operation.edits),
        )

    def delete(self, operation: DeleteFile) -> PathResult:
        path = operation.path
        with self._locks.hold(self._files.resolve(path, follow=False)):
            stat = self._files.stat(path, follow=False)
            if stat.kind is FileKind.FOLDER:
                if operation.expected_hash is not None:
                    raise InvalidArgument(f"A folder has no hash: {path}")
                if not operation.recursive:
                    raise InvalidArgument(f"Is a folder: {path}", hint=DELETE_RECURSIVELY, path=path)
                self._files.remove_tree(path)
            else:
                read = self._check_current(operation.expected_hash, path)
                self._files.unlink(path, expected=None if stat.kind is FileKind.LINK else read)
        return PathResult(path=render_path(stat.path))

    def move(self, operation: MoveFile) -> PathResult:
        source, destination = operation.source, operation.destination
        stat = self._files.stat(source, follow=False)
        if destination.startswith((f"{source}/", f"{stat.path}/")):  # before any folder is made in it
            raise InvalidArgument(f"A folder cannot be moved into itself: {source}")

        def check(new: str) -> None:
            self._check_current(operation.expected_hash, source)
            if validation.is_notebook(new) and stat.kind is FileKind.FILE:
                self._check_notebook(new, self._read(source)[0])

        def check_first() -> None:
            check(destination)
            # A rename onto itself changes nothing, but raises the errors of any rename of the source.
            self._files.rename(source, source, overwrite=True)

        if operation.create_directories:
            self._make_parent(destination, check_first)
        with translate_target_errors(destination):
            new = self._files.resolve(destination, follow=False)
        if new.startswith(f"{stat.path}/"):
            raise InvalidArgument(f"A folder cannot be moved into itself: {source}")
        with self._locks.hold(stat.path, new):
            check(new)
            with translate_target_errors(destination, _OVERWRITE):
                if operation.overwrite:
                    self._check_overwritable(destination, stat)
                moved = self._files.rename(source, destination, overwrite=operation.overwrite)
            return PathResult(path=render_path(moved))

    def copy(self, operation: CopyFile) -> PathResult:
        source, destination = operation.source, operation.destination
        found = self._files.stat(source)
        real = found.path
        if found.kind is FileKind.FOLDER:
            hint = "Only files are copied. Copy a folder with a command: cp -r."
            raise InvalidArgument(f"Is a folder: {source}", hint=hint, path=source)

        def read(new: str) -> tuple[bytes, Stat]:
            data, stat = self._read(source)
            content_hash.check_hash(operation.expected_hash, content_hash.hash_bytes(data), source)
            self._check_notebook(new, data)
            return data, stat

        if operation.create_directories:
            self._make_parent(destination, lambda: read(destination))
        with translate_target_errors(destination):
            new = self._files.resolve(destination)
        if real == new:
            raise InvalidArgument(f"Source and destination are the same file: {source}")
        with self._locks.hold(real, new):
            data, stat = read(new)
            with translate_target_errors(destination, _OVERWRITE):
                written = self._files.replace(destination, data, exclusive=not operation.overwrite, mode=stat.mode)
        return PathResult(path=render_path(written.path), hash=content_hash.hash_bytes(data))

    def make_folder(self, operation: CreateDirectory) -> PathResult:
        self._files.mkdir(operation.path, parents=True)
        return PathResult(path=render_path(self._files.resolve(operation.path)))

    # -- parts

    def _read(self, path: str) -> tuple[bytes, Stat]:
        limit = self._limits.max_write_size
        with self._files.open(path) as file:
            data = read_up_to(file, limit)
            if len(data) > limit:
                raise TooLarge(
                    f"The file has {file.stat.size} bytes, more than the limit of {limit}: {path}",
                    hint="Use a command (sed, cp) for a file of this size.",
                    size=file.stat.size,
                )
            return data, file.stat

    def _check_notebook(self, real: str, data: bytes, *, append: bool = False) -> None:
        """Raise if `real`, the resolved path of any link, is a notebook and `data` is not a valid one."""
        if validation.is_notebook(real):
            if append:
                raise InvalidArgument(
                    f"Text cannot be appended to a notebook: {real}", hint="Write the whole notebook instead."
                )
            validation.require_valid(real, data)

    def _check_current(self, expected_hash: str | None, path: str) -> Stat | None:
        """Raise Conflict if a file has another hash than expected; return its stat, None if nothing is expected."""
        if expected_hash is None:
            return None
        try:
            stat, current = content_hash.stat_and_hash_file(self._files, path)
        except FileNotFoundError:
            content_hash.check_hash(expected_hash, None, path)
            return None
        content_hash.check_hash(expected_hash, current, path)
        return stat

    def _make_parent(self, path: str, check: Callable[[], object]) -> None:
        """Create the parent folder if it is missing, after `check`, so that a refused operation leaves no folder."""
        parent = posixpath.dirname(path)
        if not parent:
            return
        with _translate_errors(path):
            try:
                self._files.stat(parent)
                return
            except FileNotFoundError:
                if ".." in split_path(path):
                    raise FileNotFound(
                        f"No such folder: {parent}", hint='A path with ".." must exist; name the folder directly.'
                    ) from None
        check()
        with _translate_errors(path):
            self._files.mkdir(parent, parents=True)

    def _check_size(self, size: int, path: str) -> None:
        limit = self._limits.max_write_size
        if size > limit:
            raise TooLarge(
                f"The content has {size} bytes, more than the limit of {limit}: {path}",
                hint="Write less at once, or append in parts.",
                size=size,
                maxWriteSize=limit,
            )

    def _check_overwritable(self, destination: str, source: Stat) -> None:
        try:
            stat = self._files.stat(destination, follow=False)
        except FileNotFoundError:
            return
        if stat.kind is FileKind.FOLDER:
            raise AlreadyExists(f"The destination is a folder, which a move does not overwrite: {destination}")
        if source.kind is FileKind.FOLDER:
            raise AlreadyExists(f"The destination is a file, which a folder does not replace: {destination}")


@contextmanager
def translate_target_errors(path: str, exists: str | None = None) -> Iterator[None]:
    """Translate the OSErrors of creating `path`: a missing file is then a missing parent folder.

    `exists` is the hint if the path exists already.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFound(f"No such folder on the way to: {path}", hint=CREATE_PARENT, path=path) from error
    except FileExistsError as error:
        raise AlreadyExists(f"Already exists: {path}", hint=exists, path=path) from error
    except IsADirectoryError as error:
        hint = "Name a file to write, in it or elsewhere."
        raise InvalidArgument(f"Is a folder: {path}", hint=hint, path=path) from error
    except OSError as error:
        raise translate_os_error(error, path) from error


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Translate OSErrors to errors about `path` instead of the operation's first path."""
    try:
        yield
    except OSError as error:
        raise translate_os_error(error, path) from error
