"""A state machine: random operations, commands, saves of a person, reverts and crashes on a real folder.

Whatever happens, a revert restores the tree byte for byte, or names the conflict and leaves the person's content.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.change_workspace import ChangeWorkspace
from wap_kernel.model.errors import Conflict, WapError
from wap_kernel.model.operations import CopyFile, CreateDirectory, DeleteFile, MoveFile, WriteFile

PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "f/g"])
FOLDERS = st.sampled_from(["d", "d/e", "f", "n"])
CONTENTS = st.binary(max_size=4)


class History(RuleBasedStateMachine):
    """One run changes the folder; a person saves now and then; then the run is reverted, and the revert reverted."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.far: str | None = None

    @initialize(is_far=st.booleans(), use_exchange=st.booleans())
    def open(self, is_far: bool, use_exchange: bool) -> None:
        self.far = tempfile.mkdtemp(dir="/dev/shm") if is_far else None
        state = Path(self.far) if self.far else self.base / "state"
        self.workspace = ChangeWorkspace(self.base / "w", state, use_exchange=use_exchange)
        self.workspace.run_directly("mkdir -p d/e f; echo a > a; echo x > d/a; echo y > d/e/a; ln -s a b")
        self.start_run()

    def start_run(self) -> None:
        self.run = f"run{len(getattr(self, 'reverted', []))}"
        self.reverted = [*getattr(self, "reverted", []), self.run]
        self.before = self.workspace.tree()
        self.has_saved = False

    def do(self, operation: Any) -> None:
        with contextlib.suppress(OSError, WapError):
            self.workspace.do(self.run, operation)

    @rule(path=PATHS, content=CONTENTS, mode=st.sampled_from(["overwrite", "append", "create"]))
    def write(self, path: str, content: bytes, mode: Any) -> None:
        self.do(WriteFile(path=path, content=content, mode=mode, create_directories=True))

    @rule(path=st.one_of(PATHS, FOLDERS))
    def delete(self, path: str) -> None:
        self.do(DeleteFile(path=path, recursive=True))

    @rule(source=st.one_of(PATHS, FOLDERS), destination=st.one_of(PATHS, FOLDERS), overwrite=st.booleans())
    def move(self, source: str, destination: str, overwrite: bool) -> None:
        self.do(MoveFile(source=source, destination=destination, overwrite=overwrite, create_directories=True))

    @rule(source=PATHS, destination=PATHS)
    def copy(self, source: str, destination: str) -> None:
        self.do(CopyFile(source=source, destination=destination, overwrite=True))

    @rule(path=FOLDERS)
    def make_folder(self, path: str) -> None:
        self.do(CreateDirectory(path=path))

    @rule(path=PATHS, mode=st.sampled_from([0o600, 0o755]))
    def command(self, path: str, mode: int) -> None:
        lines = ["mkdir -p d n", f"chmod {mode:o} d", f"echo c >> {path}", "mv -T d/e n/e", "rm -f d/b"]
        script = "\n".join(f"{line} || true" for line in lines)
        self.workspace.command(self.run, script)

    @rule(path=PATHS, content=CONTENTS, in_place=st.booleans())
    def save(self, path: str, content: bytes, in_place: bool) -> None:
        """Save as a person does."""
        target = self.workspace.folder / path
        with contextlib.suppress(OSError):
            if in_place:
                target.write_bytes(content)
            else:
                temporary = self.workspace.folder / "saved"
                temporary.write_bytes(content)
                temporary.replace(target)
            self.has_saved = True
        (self.workspace.folder / "saved").unlink(missing_ok=True)

    @rule()
    def revert(self) -> None:
        after = self.workspace.tree()
        number = len(self.reverted)
        try:
            result = self.workspace.revert(self.run, f"revert{number}")
        except Conflict:
            assert self.workspace.tree() == after
            self.workspace.revert(self.run, f"revert{number}", force=True)
        else:
            assert result.left is None
            if not self.has_saved:
                assert self.workspace.tree() == self.before
        again = self.workspace.revert(f"revert{number}", f"again{number}", force=True)
        assert again.left is None
        assert self.workspace.tree() == after
        self.start_run()

    @invariant()
    def is_complete(self) -> None:
        if hasattr(self, "workspace"):
            assert self.workspace.leftovers() == []
            assert self.workspace.history.log.read_unfinished(self.run) == []

    def teardown(self) -> None:
        if hasattr(self, "workspace"):
            self.workspace.close()
        for folder in (self.base, self.far):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
