"""Where a file operation will change something: the real paths, also of folders that it will make on the way."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from wap_kernel.files.interface import Files
from wap_kernel.files.write import translate_target_errors
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.paths import join_path, split_path


@dataclass(frozen=True)
class Targets:
    paths: tuple[str, ...] = ()
    tree: str | None = None
    """With all that is below, if it is a folder."""
    moved_to: str | None = None
    """Where the tree goes."""


def targets(operation: Operation, files: Files) -> Targets:
    """Raises what the operation itself would, when a path cannot be reached."""
    if isinstance(operation, WriteFile):
        with translate_target_errors(operation.path):
            return Targets(_new(files, operation.path, make=operation.create_directories))
    if isinstance(operation, ModifyFile):
        return Targets((files.resolve(operation.path),))
    if isinstance(operation, DeleteFile):
        return Targets(tree=files.resolve(operation.path, follow=False))
    if isinstance(operation, CreateDirectory):
        return Targets(tuple(_missing(files, operation.path)))
    if isinstance(operation, CopyFile):
        with translate_target_errors(operation.destination):
            return Targets(_new(files, operation.destination, make=operation.create_directories))
    if isinstance(operation, MoveFile):
        source = files.resolve(operation.source, follow=False)
        with translate_target_errors(operation.destination):
            new = _new(files, operation.destination, make=operation.create_directories, follow=False)
        return Targets(new[:-1], tree=source, moved_to=new[-1])
    return Targets()


def _new(files: Files, path: str, *, make: bool, follow: bool = True) -> tuple[str, ...]:
    """The folders that will be made, and last the path itself."""
    try:
        return (files.resolve(path, follow=follow),)
    except FileNotFoundError:
        made = _missing(files, posixpath.dirname(path)) if make else []
        if not made:
            raise
        return (*made, join_path(made[-1], posixpath.basename(path)))


def _missing(files: Files, path: str) -> list[str]:
    """The folders that are not there on the way to the folder `path`, as `mkdir` with parents would make them."""
    missing: list[str] = []
    here = "."
    for name in split_path(path):
        if name == "..":
            here = posixpath.dirname(here) or "."
            continue
        here = join_path(here, name)
        if here in missing:
            continue
        try:
            here = files.resolve(here)
        except FileNotFoundError:
            pass  # in a folder that will be made
        if files.lstat(here) is None:
            missing.append(here)
    return missing
