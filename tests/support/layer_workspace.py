"""A workspace with layers, and shell scripts that run in the namespace of a layer without a sandbox around them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.provider_workspace import LONG, Guard, Journal
from wap_kernel.files.contained.root import Root
from wap_kernel.model.changes import Change, ChangeSet
from wap_kernel.providers.layers.launcher import (
    CommandLine,
    Launcher,
    NamespaceProcess,
    NamespaceTask,
    TaskFailure,
    build_task,
    needs_user_namespace,
)
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.providers.layers.probe import find_layer_folder
from wap_kernel.providers.mounts import Guards
from wap_kernel.providers.process.supervisor_handle import wait_for_exit

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}


class ScriptOutcome(NamedTuple):
    exit_code: int
    output: str
    failure: TaskFailure | None


class LayerWorkspace:
    """A folder `ws` and its layers, which lie in the folder `state` or where there is a place for them."""

    def __init__(self, folder: Path, *, root: Path | None = None, state: Path | None = None) -> None:
        self.folder = root or folder / "ws"
        self.folder.mkdir(exist_ok=True, parents=True)
        self.state = state or folder / "state"
        self.state.mkdir(exist_ok=True, parents=True)
        place = find_layer_folder(str(self.folder), str(self.state))
        if place.folder is None:
            pytest.skip(place.detail)
        self.root = Root(str(self.folder), guard=Guard(), journal=Journal())
        self.launcher = Launcher(user_namespace=needs_user_namespace())
        self.layers = LayerStore(place.folder, self.root, self.launcher)

    def close(self) -> None:
        self.launcher.close()
        self.root.close()

    def make_task(
        self, *guards: tuple[str, str], layer: Layer | None = None, read_only: bool = False, root: Root | None = None
    ) -> NamespaceTask:
        return build_task(root or self.root, Guards(guards, read_only), layer)

    def run(self, script: str, task: NamespaceTask, environment: Mapping[str, str] = ENVIRONMENT) -> ScriptOutcome:
        """Run a shell script in the workspace, in the namespace of a task."""
        return self.execute(["/bin/bash", "-c", "--", f'cd -- "$0" && {{\n{script}\n}}', task.root], task, environment)

    def execute(
        self, argv: Sequence[str], task: NamespaceTask, environment: Mapping[str, str] = ENVIRONMENT
    ) -> ScriptOutcome:
        with ExitStack() as stack:
            read, write = os.pipe()
            output = stack.enter_context(open(read, "rb"))
            null = os.open(os.devnull, os.O_RDONLY)
            try:
                program = self.launcher.launch(task, CommandLine(argv, environment, {0: null, 1: write, 2: write}))
                stack.callback(program.end)
            finally:
                os.close(null)
                os.close(write)
            told = output.read().decode("utf-8", "replace")
            return ScriptOutcome(await_exit(program), told, program.find_failure())

    def run_on_layer(self, script: str) -> ChangeSet:
        """Run a shell script on a layer, and return what it changed; the layer is discarded."""
        layer = self.layers.create()
        try:
            outcome = self.run(script, self.make_task(layer=layer))
            assert outcome.failure is None, outcome
            assert outcome.exit_code == 0, outcome
            return layer.read_changes()
        finally:
            layer.discard()


def await_exit(program: NamespaceProcess) -> int:
    wait_for_exit(program.process, LONG)
    assert program.process.returncode is not None
    return program.process.returncode


def describe(changes: Iterable[Change]) -> list[str]:
    """The changes as lines: the kind and the path, and the source of what was moved."""
    return [
        f"{change.kind.value} {change.path}" + (f" from {change.source}" if change.source else "") for change in changes
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[LayerWorkspace]:
    workspace = LayerWorkspace(tmp_path)
    yield workspace
    workspace.close()
