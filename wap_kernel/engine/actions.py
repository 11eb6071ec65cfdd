"""Perform each kind of operation, once the pipeline has decided that it may be performed.

Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wap_kernel.engine.layered_commands import LayeredCommands
from wap_kernel.engine.permit import WALK_SECONDS, Permit
from wap_kernel.engine.shared_commands import SharedCommands
from wap_kernel.files.interface import Locks
from wap_kernel.files.list_folder import list_files
from wap_kernel.files.notebooks.read import read_notebook
from wap_kernel.files.read import read_file, view_file
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.files.write import Writer
from wap_kernel.git.client import GitClient
from wap_kernel.git.remote.preview import TransferPreview
from wap_kernel.model.caller import NO_RUN, CallContext, Caller
from wap_kernel.model.command import CancelToken, Confinement, Deadline, OnChunk
from wap_kernel.model.errors import NotFound
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.limits import DEFAULT_EXCLUSIONS
from wap_kernel.model.operations import (
    ApplyChanges,
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    Message,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    ReadNotebook,
    RevertRun,
    RunCommand,
    SearchFiles,
    ViewFile,
    WriteFile,
)
from wap_kernel.model.package import __version__
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import Result, WorkspaceDescription
from wap_kernel.providers.base import Provider
from wap_kernel.state.undo.undo import Undo

DIALECTS = ("wap/1.0", "agent-spaces/1.0", "coding-environment-mcp", "workspace-tool-interface")


class Actions:
    """The functions that perform operations."""

    def __init__(
        self,
        provider: Provider,
        searcher: Searcher,
        layer_searcher: Searcher,
        locks: Locks,
        root: str,
        undoing: Undo,
        git: GitClient,
        layered: LayeredCommands | None,
        shared: SharedCommands,
    ) -> None:
        self._provider = provider
        self._searcher = searcher
        self._layer_searcher = layer_searcher
        self._locks = locks
        self._root = root
        self._undoing = undoing
        self._git = git
        self._layered = layered
        self._shared = shared

    def perform(
        self,
        operation: Operation,
        permit: Permit,
        caller: Caller,
        cancel: CancelToken,
        on_chunk: OnChunk | None = None,
        context: CallContext = NO_RUN,
    ) -> Result:
        if isinstance(operation, RunCommand):
            if self._layered is not None and operation.isolation == "layer":
                return self._layered.run(operation, permit, cancel, on_chunk, context)
            return self._shared.run(operation, permit, cancel, on_chunk)
        if isinstance(operation, GitAction):
            return self._act(operation, permit, cancel, context, caller)
        if isinstance(operation, ListFiles | SearchFiles):
            deadline = Deadline(WALK_SECONDS, lambda: cancel.requested)
            if isinstance(operation, SearchFiles):
                searcher = self._searcher if permit.layer is None else self._layer_searcher
                return searcher.search(
                    permit.files,
                    permit.guard,
                    operation,
                    permit.limits,
                    deadline,
                    max_file_size=permit.max_searched_size,
                )
            return list_files(permit.files, operation, permit.limits, self._root, deadline)
        if isinstance(operation, RevertRun):
            return self._undoing.revert(operation, permit.guard, context)
        if isinstance(operation, ApplyChanges):
            if self._layered is None:
                raise NotFound("Commands have no layers here, so nothing waits to be applied.")
            return self._layered.apply_retained(operation, permit, context)
        return _SIMPLE[type(operation)](self, operation, permit)

    def _read(self, operation: ReadFile, permit: Permit) -> Result:
        return read_file(permit.files, operation, permit.limits, self._root)

    def _view(self, operation: ViewFile, permit: Permit) -> Result:
        return view_file(permit.files, operation, permit.limits, self._root)

    def _read_notebook(self, operation: ReadNotebook, permit: Permit) -> Result:
        return read_notebook(permit.files, operation, permit.limits, self._root)

    def _describe(self, _: DescribeWorkspace, permit: Permit) -> WorkspaceDescription:
        return WorkspaceDescription(
            root=render_path(self._root),
            default_exclusions=list(DEFAULT_EXCLUSIONS),
            limits=permit.limits,
            version=__version__,
            dialects=list(DIALECTS),
            provider=self._provider.name,
            confines_commands=self._provider.confines,
            isolation="layer" if self._layered is not None else "shared",
        )

    def _writer(self, permit: Permit) -> Writer:
        return Writer(permit.files, self._locks, permit.limits)

    def preview_transfer(self, operation: GitTransfer, permit: Permit) -> TransferPreview:
        """Return what a transfer would do, for the person who decides."""

        def preview(confinement: Confinement) -> TransferPreview:
            return self._git.preview(operation, permit.guard, confinement)

        if self._layered is not None:
            return self._layered.inspect(permit, preview)
        return self._shared.act(permit, CancelToken(), preview)

    def _act(
        self, operation: GitAction, permit: Permit, cancel: CancelToken, context: CallContext, caller: Caller
    ) -> Result:
        """Perform a git action. It is not retried as a command is: some of its steps may have been done."""

        def act(confinement: Confinement) -> Result:
            return self._git.act(operation, permit.guard, confinement, cancel, caller)

        if self._layered is not None:
            return self._layered.act(operation, permit, cancel, context, act)
        return self._shared.act(permit, cancel, act)


_SIMPLE: Mapping[type[Operation], Callable[[Actions, Any, Permit], Result]] = {
    ReadFile: Actions._read,
    ViewFile: Actions._view,
    ReadNotebook: Actions._read_notebook,
    WriteFile: lambda self, operation, permit: self._writer(permit).write(operation),
    ModifyFile: lambda self, operation, permit: self._writer(permit).modify(operation),
    DeleteFile: lambda self, operation, permit: self._writer(permit).delete(operation),
    MoveFile: lambda self, operation, permit: self._writer(permit).move(operation),
    CopyFile: lambda self, operation, permit: self._writer(permit).copy(operation),
    CreateDirectory: lambda self, operation, permit: self._writer(permit).make_folder(operation),
    DescribeWorkspace: Actions._describe,
    Message: lambda *_: Result(),
}
