"""Which paths an operation names, and what it does to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wap_kernel.files.interface import Access
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    GitAction,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RunCommand,
    SearchFiles,
    WriteFile,
)


@dataclass(frozen=True)
class Touch:
    """A path that an operation reaches. `follow`: through a link in last position."""

    path: str
    access: Access
    follow: bool = True
    folder: bool = False
    """It is or may be a folder, and is not read as a file; the primitives know better when they act."""

    def at(self, path: str) -> Touch:
        """The same, with the path resolved."""
        return replace(self, path=path)


def touches(operation: Operation) -> tuple[Touch, ...]:
    """The paths an operation names, with what it does to them."""
    if isinstance(operation, ListFiles):
        return (Touch(operation.path, Access.READ, folder=True),)
    if isinstance(operation, ReadFile):
        return (Touch(operation.path, Access.READ),)
    if isinstance(operation, SearchFiles):
        return tuple(Touch(path, Access.READ, folder=True) for path in operation.paths)
    if isinstance(operation, (WriteFile, ModifyFile)):
        return (Touch(operation.path, Access.WRITE),)
    if isinstance(operation, CreateDirectory):
        return (Touch(operation.path, Access.WRITE, folder=True),)
    if isinstance(operation, DeleteFile):
        return (Touch(operation.path, Access.WRITE, follow=False),)
    if isinstance(operation, MoveFile):
        return (
            Touch(operation.source, Access.WRITE, follow=False),
            Touch(operation.destination, Access.WRITE, follow=False),
        )
    if isinstance(operation, CopyFile):
        return (Touch(operation.source, Access.READ), Touch(operation.destination, Access.WRITE))
    if isinstance(operation, RunCommand):
        return (Touch(operation.cwd, Access.READ, folder=True),)
    if isinstance(operation, GitAction):
        return tuple(_of_git(operation))
    return ()


def _of_git(operation: GitAction) -> Iterator[Touch]:
    """What it names. What else git would show or change, it is asked about path by path when it acts."""
    access = Access.WRITE if operation.action == "restore" and not operation.staged else Access.READ
    for path in operation.files:
        yield Touch(path, access, follow=False, folder=True)
    if operation.destination is not None:
        yield Touch(operation.destination, Access.WRITE, follow=False, folder=True)
