"""A folder with undo, for tests: operations and real commands as the pipeline would perform them, without policy."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wap_kernel.files.deadline import Deadline
from wap_kernel.files.root import Root
from wap_kernel.files.writing import Writer
from wap_kernel.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    Limits,
    ModifyFile,
    MoveFile,
    Operation,
    Reverted,
    RunCommand,
    WriteFile,
)
from wap_kernel.policy.protected import ProtectedPaths
from wap_kernel.runs.database import Database
from wap_kernel.runs.locks import PathLocks
from wap_kernel.runs.restoring import Reverting
from wap_kernel.runs.showing import describe
from wap_kernel.runs.snapshots import Caps, NotKept, Snapshots
from wap_kernel.runs.state import open_state_dir

LOG = logging.getLogger("test")
NAMES = {
    **{WriteFile: "write", ModifyFile: "modify", DeleteFile: "delete"},
    **{MoveFile: "move", CopyFile: "copy", CreateDirectory: "make_folder"},
}


class NoJournal:
    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


class Undoable:
    """`state` may lie below the folder, as it does when people serve their home folder."""

    def __init__(self, folder: Path, state: Path, **caps: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.state = open_state_dir(str(state))
        inside = os.path.relpath(self.state, folder)
        hidden = frozenset() if inside.startswith("..") else frozenset({tuple(inside.split("/"))})
        self.guard = ProtectedPaths(hidden, frozenset())
        self.files = Root(str(folder), guard=self.guard, journal=NoJournal())
        self.database = Database(self.state, LOG)
        self.snapshots = Snapshots(self.files, self.database, self.state, Caps(**caps), LOG)
        self.locks = PathLocks(self.state)
        self.reverting = Reverting(self.snapshots, self.locks)
        self.notices: list[NotKept] = []
        self._position = 0

    def close(self) -> None:
        self.database.close()
        self.files.close()

    def do(self, run: str, operation: Operation) -> None:
        self._position += 1
        with self.snapshots.around(operation, run, self._position, Deadline(60), self.notices.append):
            if isinstance(operation, RunCommand):
                subprocess.run(["bash", "-ec", operation.command], cwd=self.folder, check=True, capture_output=True)
            else:
                getattr(Writer(self.files, self.locks, Limits()), NAMES[type(operation)])(operation)

    def command(self, run: str, script: str) -> None:
        self.do(run, RunCommand(command=script))

    def write(self, run: str, path: str, content: bytes, **more: Any) -> None:
        self.do(run, WriteFile(path=path, content=content, **more))

    def revert(self, run: str, into: str, *, force: bool = False) -> Reverted:
        return self.reverting.revert(run, self.guard, into=into, force=force)

    def describe(self, run: str) -> dict[str, Any]:
        return describe(self.snapshots, self.reverting, run, lambda _: True)

    def tree(self) -> dict[str, tuple[Any, ...]]:
        return tree(self.folder, without=self.state)


def tree(folder: Path, without: str = "") -> dict[str, tuple[Any, ...]]:
    """Everything that a revert owes: contents, modes, links, empty folders."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        if without and (str(path) == without or str(path).startswith(f"{without}/")):
            continue
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[str(path.relative_to(folder))] = ("link", os.readlink(path))
        else:
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
            kind = stat.S_IFMT(status.st_mode)
            found[str(path.relative_to(folder))] = (kind, stat.S_IMODE(status.st_mode), content)
    return found


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def paths(described: Mapping[str, Any]) -> dict[str, str]:
    return {entry["path"]: entry["change"] for entry in described["changes"]}
