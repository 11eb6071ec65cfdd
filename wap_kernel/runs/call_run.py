"""The run of a single call: it is stored when the call begins to change something, so that it can be reverted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import ModifyFile, WriteFile
from wap_kernel.model.results import ChangeResult, Result
from wap_kernel.model.run import BatchOptions, Run, RunStatus, Step
from wap_kernel.runs.run_creation import new_run_id
from wap_kernel.runs.services import RunServices
from wap_kernel.runs.store.records import NewRun


class CallRun:
    """The run of one call; a call that changes nothing leaves no run. Its methods run on the call's thread."""

    def __init__(self, services: RunServices, step: Step, caller: Caller, dialect: str) -> None:
        self._services = services
        self._step = step
        self._caller = caller
        self._dialect = dialect
        self._id = new_run_id()
        self._run: Run | None = None

    @property
    def context(self) -> CallContext:
        """Return the context that the call is performed in."""
        return CallContext(dialect=self._dialect, tool=self._step.tool, run=self._id, step=self._step.id, recorder=self)

    def begin(self) -> None:
        """Store the run, before the first change."""
        if self._run is None:
            services = self._services
            services.active_calls.add(self._id)
            owner = services.workspace.lease.id
            options = BatchOptions(call=self._step.tool)
            new = NewRun(self._id, self._caller, self._dialect, options, (_without_content(self._step),), owner)
            try:
                self._run = services.store.create(new)
            except BaseException:
                services.active_calls.discard(self._id)
                raise

    def complete(self, result: Result) -> Result:
        """End the run, and return the result with its id."""
        if self._run is None:
            return result
        with suppress(WapError):  # the disk is full: what was changed stays so, and recovery ends the run
            event = self._services.events.write_result(self._step.id, self._step.operation, result)
            self._end(self._run, RunStatus.COMPLETED, event)
        self._services.active_calls.discard(self._id)
        return result.model_copy(update={"run_id": self._id}) if isinstance(result, ChangeResult) else result

    def fail(self, error: WapError) -> None:
        """End the run of a call that failed; one that changed nothing, and left nothing to apply, is removed."""
        if self._run is None:
            return
        with suppress(WapError):  # the state cannot be written: recovery finds a run that no call performs
            if self._has_changes():
                error.details = {**error.details, "runId": self._id}
                event = self._services.events.write_failure(self._step.id, self._step.operation, error)
                self._end(self._run, RunStatus.ERROR, event)
            else:
                self._services.store.remove(self._id)
        self._services.active_calls.discard(self._id)

    def _has_changes(self) -> bool:
        workspace = self._services.workspace
        is_waiting = workspace.layered is not None and workspace.layered.has_changes(self._id)
        return is_waiting or workspace.history.has_changes(self._id)

    def _end(self, run: Run, status: RunStatus, event: dict[str, Any]) -> None:
        self._services.store.change_status(run, RunStatus.RUNNING, status, position=1, events=[event])
        self._services.active_calls.discard(self._id)
        self._run = None


def _without_content(step: Step) -> Step:
    """Return the step without what it writes: the run of a call is never executed again, and files may be large."""
    operation = step.operation
    if isinstance(operation, WriteFile):
        return replace(step, operation=operation.model_copy(update={"content": b""}))
    if isinstance(operation, ModifyFile):
        return replace(step, operation=operation.model_copy(update={"edits": ()}))
    return step
