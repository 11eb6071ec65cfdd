"""A folder with undo, for tests: operations and real commands as the pipeline would perform them, without policy."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files.contained.root import Root
from wap_kernel.files.write import Writer
from wap_kernel.model.command import Deadline
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    RunCommand,
    WriteFile,
)
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.model.results import Limits, RevertResult
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.state.database import Database
from wap_kernel.state.directory import open_state_dir
from wap_kernel.state.path_locks import PathLocks
from wap_kernel.state.undo.change_recorder import ChangeRecorder, Nameable, Readable, SnapshotLimits, UnrecoverableFiles
from wap_kernel.state.undo.report import describe_changes
from wap_kernel.state.undo.revert import RunReverter
from wap_kernel.state.undo.revert_apply import RevertExecutor
from wap_kernel.state.undo.revert_plan import RevertStep

LOG = logging.getLogger("test")
NAMES = {
    **{WriteFile: "write", ModifyFile: "modify", DeleteFile: "delete"},
    **{MoveFile: "move", CopyFile: "copy", CreateDirectory: "make_folder"},
}

SCENE = """
mkdir -p src/deep empty/inner 'sp ace' build vendor/lib closed
printf 'build/\\n*.log\\n' > .gitignore
printf 'ignored' > build/out.log
printf 'one\\r\\ntwo\\r\\n' > crlf.txt
printf 'no newline' > src/a.py
printf '\\0\\1\\377' > src/deep/binary
printf 'secret' > token; chmod 600 token
printf 'x' > 'sp ace/f'; printf 'bytes' > $'caf\\xe9'
printf '#!/bin/sh\\n' > tool; chmod 755 tool
printf 'kept' > closed/f; chmod 400 closed/f; chmod 500 closed
ln -s src/a.py link; ln -s nowhere dangling; ln -s src folder-link; ln -s /etc/passwd away
git init -q vendor/lib; printf 'lib' > vendor/lib/lib.c
printf 'deleted' > old.txt; printf 'swapped' > becomes-folder; mkdir becomes-file; printf 'in' > becomes-file/in
touch -d '2001-01-01' src/a.py
"""

ATTACK = """
printf 'rewritten' > crlf.txt
printf 'no Newline' > src/a.py; touch -d '2001-01-01' src/a.py
printf 'more' >> build/out.log; rm .gitignore
chmod 644 token; chmod 4700 tool; printf 'TOKEN!' > token
rm -rf src/deep empty 'sp ace' old.txt $'caf\\xe9'
ln -sfn crlf.txt link; rm dangling; printf 'file' > dangling; rm folder-link; mkdir folder-link; touch folder-link/x
rm away; ln -s /dev/null away
rm becomes-folder; mkdir -p becomes-folder/a/b; printf 'n' > becomes-folder/a/n
rm -r becomes-file; printf 'now a file' > becomes-file
printf 'changed' > vendor/lib/lib.c; touch vendor/lib/new.c
mkdir -p made/empty; printf 'new' > made/new; ln -s new made/link; mkfifo made/pipe; chmod 700 made
chmod 700 closed; rm -f closed/f; printf 'z' > closed/f; chmod 500 closed
"""


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
        self.snapshots = ChangeRecorder(self.files, self.database, self.state, SnapshotLimits(**caps), LOG)
        self.locks = PathLocks(self.state)
        self.reverting = RunReverter(self.snapshots, self.locks)
        self.notices: list[UnrecoverableFiles] = []
        self._position = 0

    def close(self) -> None:
        self.database.close()
        self.files.close()

    def do(self, run: str, operation: Operation) -> None:
        self._position += 1
        with self.snapshots.around(operation, run, self._position, Deadline(60), self.notices.append):
            self._perform(operation)

    def call(self, operation: Operation) -> None:
        """A single call, which belongs to no run."""
        with self.snapshots.around_call(operation, Deadline(60)):
            self._perform(operation)

    def _perform(self, operation: Operation) -> None:
        if isinstance(operation, RunCommand):
            subprocess.run(["bash", "-ec", operation.command], cwd=self.folder, check=True, capture_output=True)
        else:
            getattr(Writer(self.files, self.locks, Limits()), NAMES[type(operation)])(operation)

    def command(self, run: str, script: str) -> None:
        self.do(run, RunCommand(command=script))

    def write(self, run: str, path: str, content: bytes, **more: Any) -> None:
        self.do(run, WriteFile(path=path, content=content, **more))

    def revert(self, run: str, into: str, *, force: bool = False) -> RevertResult:
        return self.reverting.revert(run, self.guard, into=into, force=force)

    def take_back(self, run: str) -> RevertResult:
        return self.reverting.take_back(run, self.guard)

    def interrupted_command(self, run: str, script: str) -> None:
        """One with which the server dies: nobody looks what it changed."""
        self._position += 1
        self.snapshots.changes.begin_command(run, self._position, {"notKept": [], "isOver": False})
        subprocess.run(["bash", "-ec", script], cwd=self.folder, check=True, capture_output=True)

    def interrupted(self, run: str, operation: Operation, *, is_done: bool) -> None:
        """One with which the server dies, before it acts or before anybody says that it has."""
        self._position += 1
        before = self.snapshots._before(operation, {}, Deadline(60))
        self.snapshots.changes.begin(run, self._position, before)
        if is_done:
            self._perform(operation)

    def policy(self, **filesystem: Any) -> PolicyGuard:
        """What binds a caller under a policy, beside what is protected always."""
        return PolicyGuard(self.guard, EffectivePolicy((Policy(filesystem=FilesystemPolicy(**filesystem)),)))

    def describe(
        self, run: str, readable: Readable = lambda _: True, nameable: Nameable = lambda _: True
    ) -> dict[str, Any]:
        return describe_changes(self.snapshots, self.reverting, run, readable, nameable)

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


class Killed(BaseException):
    """Stands for the death of the process."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, survived: int) -> Iterator[None]:
    """After so many steps."""
    done = iter(range(survived))
    do = RevertExecutor._do

    def die(self: RevertExecutor, step: RevertStep) -> bool:
        if next(done, None) is None:
            raise Killed
        return do(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(RevertExecutor, "_do", die)
        with pytest.raises(Killed):
            yield
