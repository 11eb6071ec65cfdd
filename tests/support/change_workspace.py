"""A folder whose changes are recorded, for tests: file operations, and scripts on a real overlay, without policy."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Guard, NullGuard
from wap_kernel.files.save_gate import SaveGate
from wap_kernel.files.write import Writer
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.results import Limits, RevertResult
from wap_kernel.providers.layers.change_reader import read_changes
from wap_kernel.state.changes.applier import ApplyResult, ChangeApplier
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.database import Database
from wap_kernel.state.directory import open_state_dir
from wap_kernel.state.leases import Lease
from wap_kernel.state.path_locks import PathLocks
from wap_kernel.state.undo.revert import RunReverter

LOG = logging.getLogger("test")
IS_ROOT = os.geteuid() == 0
PREFIX = "trusted.overlay." if IS_ROOT else "user.overlay."
_METHODS = {
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
"""A script that makes all kinds of files."""
ATTACK = """
printf 'rewritten' > crlf.txt
printf 'no Newline' > src/a.py; touch -d '2001-01-01' src/a.py
printf 'more' >> build/out.log; rm .gitignore
chmod 644 token; chmod 700 tool; printf 'TOKEN!' > token
rm -rf src/deep empty 'sp ace' old.txt $'caf\\xe9'
ln -sfn crlf.txt link; rm dangling; printf 'file' > dangling; rm folder-link; mkdir folder-link; touch folder-link/x
rm away; ln -s /dev/null away
rm becomes-folder; mkdir -p becomes-folder/a/b; printf 'n' > becomes-folder/a/n
rm -r becomes-file; printf 'now a file' > becomes-file
printf 'changed' > vendor/lib/lib.c; touch vendor/lib/new.c
mkdir -p made/empty; printf 'new' > made/new; ln -s new made/link; chmod 700 made
mkdir made/sealed; printf 's' > made/sealed/s; chmod 555 made/sealed
chmod 700 closed; rm -f closed/f; printf 'z' > closed/f; chmod 500 closed
chmod 711 .
"""
"""A script that changes them in all ways."""


class Layered:
    """The upper folder of an overlay on a workspace, and what a script changed there."""

    def __init__(self, folder: Path, upper: Path, began_ns: int, root: Root) -> None:
        self.folder = folder
        self.upper = upper
        self.began_ns = began_ns
        self._root = root

    def read(self) -> ChangeSet:
        return read_changes(str(self.upper), self._root.fd, PREFIX)


class ChangeWorkspace:
    """`state`, and `base` for layers, may lie on another filesystem. `step` is called after each step of a change."""

    def __init__(
        self,
        folder: Path,
        state: Path,
        *,
        step: Callable[[str], None] = lambda _: None,
        use_exchange: bool = True,
        base: Path | None = None,
        guard: Guard | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.state = open_state_dir(str(state))
        self.lease = Lease(self.state, "w")
        self.root = Root(str(folder), guard=guard or NullGuard(), journal=self.lease, use_exchange=use_exchange)
        self.database = Database(self.state, LOG)
        self.locks = PathLocks(self.state)
        self.gate = SaveGate(str(folder))
        self.history = ChangeHistory(self.root, self.database, self.state, self.locks, self.gate, step=step)
        self.applier = ChangeApplier(self.history)
        self.reverter = RunReverter(self.history)
        self._base = base or Path(self.state)
        self._layers = 0

    def close(self) -> None:
        self.history.close()
        self.database.close()
        self.root.close()
        self.lease.close()

    # -- operations

    def files(self, run: str) -> Root:
        return self.history.open_files(NullGuard(), run, 0)

    def do(self, run: str, operation: Operation) -> Any:
        writer = Writer(self.files(run), self.locks, Limits())
        return getattr(writer, _METHODS[type(operation)])(operation)

    def write(self, run: str, path: str, content: bytes, **more: Any) -> Any:
        return self.do(run, WriteFile(path=path, content=content, **more))

    # -- commands

    def run_on_layer(self, script: str) -> Layered:
        """Run a script on an overlay of the folder."""
        self._layers += 1
        folder = self._base / f"layer{self._layers}"
        for name in ("upper", "work", "merged"):
            (folder / name).mkdir(parents=True)
        shutil.copystat(self.folder, folder / "upper")
        clock = folder / "clock"
        clock.touch()
        began = clock.stat().st_ctime_ns
        while True:  # the clock of the filesystem is coarse
            os.utime(clock)
            if clock.stat().st_ctime_ns > began:
                break
        options = f"lowerdir={self.folder},upperdir={folder}/upper,workdir={folder}/work"
        options += ",redirect_dir=on" if IS_ROOT else ",userxattr"
        mount = f'mount -t overlay overlay -o "{options}" {folder}/merged && cd {folder}/merged && exec bash -ec "$1"'
        unshare = ["unshare", "-m"] if IS_ROOT else ["unshare", "-U", "-m", "--map-current-user", "--keep-caps"]
        subprocess.run([*unshare, "sh", "-c", mount, "sh", script], check=True, capture_output=True)
        return Layered(folder, folder / "upper", began, self.root)

    def apply(
        self, run: str, layer: Layered, *, atomic: bool = False, changes: ChangeSet | None = None, **more: Any
    ) -> ApplyResult:
        found = layer.read() if changes is None else changes
        return self.applier.apply(
            str(layer.upper), found, run=run, position=0, began_ns=layer.began_ns, atomic=atomic, **more
        )

    def command(self, run: str, script: str, **more: Any) -> ApplyResult:
        return self.apply(run, self.run_on_layer(script), **more)

    def run_directly(self, script: str) -> None:
        subprocess.run(["bash", "-ec", script], cwd=self.folder, check=True, capture_output=True)

    # -- undo

    def revert(self, run: str, into: str, *, force: bool = False, guard: Guard | None = None) -> RevertResult:
        return self.reverter.revert(run, guard or NullGuard(), into=into, force=force)

    def tree(self) -> dict[str, tuple[Any, ...]]:
        return read_tree(self.folder)

    def leftovers(self) -> list[str]:
        """Return the temporary files in the folder."""
        return [path for path in self.tree() if "/.wap-" in f"/{path}"]


def read_tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything that a revert owes: names, contents, modes, links, empty folders."""
    found: dict[str, tuple[Any, ...]] = {".": (stat.S_IMODE(folder.stat().st_mode),)}
    for path in _list_all(folder):
        status = path.lstat()
        name = os.fsdecode(os.path.relpath(path, folder))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", os.readlink(path))
        else:
            content = _read(path) if stat.S_ISREG(status.st_mode) else None
            found[name] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), content)
    return found


def _list_all(folder: Path) -> list[Path]:
    found = []
    with suppress(PermissionError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            found.append(Path(entry.path))
            if entry.is_dir(follow_symlinks=False):
                found += _list_all(Path(entry.path))
    return found


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except PermissionError:
        return None


@contextmanager
def make_state_folder(near: Path, *, is_far: bool) -> Iterator[Path]:
    """Yield a folder for the state below `near`, or on another filesystem."""
    if not is_far:
        yield near / "state"
        return
    if os.stat("/dev/shm").st_dev == near.stat().st_dev:
        pytest.skip("there is no second filesystem")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)
