"""Find the real paths that a file operation will change, with the folders that it will make."""

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
class OperationTargets:
    """The real paths that an operation will change."""

    paths: tuple[str, ...] = ()
    tree: str | None = None
    """A path that changes with everything below."""
    moved_to: str | None = None
    """The destination of the tree."""


def find_targets(operation: Operation, files: Files) -> OperationTargets:
    """Return the paths; raise what the operation itself would raise if a path cannot be reached."""
    if isinstance(operation, WriteFile):
        with translate_target_errors(operation.path):
            return OperationTargets(_new(files, operation.path, make=operation.create_directories))
    if isinstance(operation, ModifyFile):
        return OperationTargets((files.resolve(operation.path),))
    if isinstance(operation, DeleteFile):
        return OperationTargets(tree=files.resolve(operation.path, follow=False))
    if isinstance(operation, CreateDirectory):
        return OperationTargets(tuple(_missing(files, operation.path)))
    if isinstance(operation, CopyFile):
        with translate_target_errors(operation.destination):
            return OperationTargets(_new(files, operation.destination, make=operation.create_directories))
    if isinstance(operation, MoveFile):
        source = files.resolve(operation.source, follow=False)
        with translate_target_errors(operation.destination):
            new = _new(files, operation.destination, make=operation.create_directories, follow=False)
        return OperationTargets(new[:-1], tree=source, moved_to=new[-1])
    return OperationTargets()


def _new(files: Files, path: str, *, make: bool, follow: bool = True) -> tuple[str, ...]:
    """Return the folders that will be made, and last the path itself."""
    try:
        return (files.resolve(path, follow=follow),)
    except FileNotFoundError:
        made = _missing(files, posixpath.dirname(path)) if make else []
        if not made:
            raise
        return (*made, join_path(made[-1], posixpath.basename(path)))


def _missing(files: Files, path: str) -> list[str]:
    """Return the missing folders up to the folder `path`, in the order in which `mkdir -p` makes them."""
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
