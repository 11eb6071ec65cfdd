"""Services that the parts of the runner share: stores, event writer, response encoders, admission, undo of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.read import WholeFile
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, ProviderUnavailable, WapError
from wap_kernel.model.operations import Operation, ReadFile
from wap_kernel.model.results import ChangeResult, Result
from wap_kernel.model.run import Approval, Run, Step
from wap_kernel.runs.approval_requests import ApprovalRequests
from wap_kernel.runs.batch_layer import find_batch_layer
from wap_kernel.runs.event_stream import RunNotifier
from wap_kernel.runs.store.outputs import OutputStore
from wap_kernel.runs.store.run_store import RunStore

CANCELLED = "The run was cancelled."
Category = Literal["validation", "policy", "execution", "timeout", "system"]
Admission = Callable[[Caller, Operation], AbstractAsyncContextManager[None]]
"""Returns the context that an operation runs in: it counts the operation against the caller's limits, or raises."""


def admit_all(_: Caller, __: Operation) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class EventWriter(Protocol):
    """Writer of the events of a run, as dicts for JSON."""

    def write_result(self, step_id: str, operation: Operation, result: Result, **extra: Any) -> dict[str, Any]: ...
    def write_file_read(self, step_id: str, operation: ReadFile, whole: WholeFile) -> dict[str, Any]:
        """Return the event that `write_result` returns for the same read."""

    def write_failure(self, step_id: str, operation: Operation, error: WapError) -> dict[str, Any]: ...
    def write_approval(
        self, step_id: str, operation: Operation, reason: str, details: Mapping[str, Any]
    ) -> dict[str, Any]: ...
    def write_denial(
        self,
        step_id: str,
        operation: Operation,
        reason: str,
        suggestion: str | None = None,
        rule: str | None = None,
    ) -> dict[str, Any]: ...
    def write_error(
        self, category: Category, message: str, details: Mapping[str, Any] | None = None
    ) -> dict[str, Any]: ...


class ResponseEncoder(Protocol):
    """Encoder of the responses of a dialect's single calls; the run of a call that waited stores its response."""

    def encode_result(self, step: Step, result: Result, /) -> dict[str, Any]: ...
    def encode_error(self, step: Step, error: WapError, /) -> dict[str, Any]:
        """Return the response of a call that failed, or that was not performed."""


@dataclass(frozen=True)
class RunServices:
    """The services of one workspace's runner."""

    workspace: Workspace
    store: RunStore
    outputs: OutputStore
    notifier: RunNotifier
    events: EventWriter
    encoders: Mapping[str, ResponseEncoder]
    """The encoders of the dialects that have single calls, by dialect."""
    approval_requests: ApprovalRequests
    admission: Admission
    active_calls: set[str] = field(default_factory=set)
    """The runs of single calls that this process performs."""


def encode_result(services: RunServices, run: Run, step: Step, result: Result) -> dict[str, Any] | None:
    """Return the response that the run of a single call stores, in its dialect's own form; None for a batch."""
    encoder = services.encoders.get(run.dialect)
    if encoder is None:
        return None
    if isinstance(result, ChangeResult):
        result = result.model_copy(update={"run_id": run.id})
    return encoder.encode_result(step, result)


def encode_error(services: RunServices, run: Run, error: WapError) -> dict[str, Any] | None:
    """Return the response of a single call that failed or was not performed; None for a batch."""
    encoder = services.encoders.get(run.dialect)
    return None if encoder is None else encoder.encode_error(run.steps[0], error)


def encode_withdrawal(services: RunServices, run: Run, why: str) -> dict[str, Any] | None:
    """Return the response of a single call that never began and that no person denied; None for a batch."""
    hint = "Nothing was done. Call again if you still need it: a person is asked again."
    return encode_error(services, run, ApprovalRequired(why, hint=hint, runId=run.id))


def undo_run(
    services: RunServices, run: Run, why: str, operation_id: str, *, is_cancelled: bool = False
) -> dict[str, Any]:
    """Undo what an atomic run changed, and return the event that reports the undo. On a thread, by the run's owner.

    The layer of a run that was cancelled is kept for a while, so that a person can still apply it.
    """
    details: dict[str, Any] = {"operationId": operation_id, "atomic": True}
    is_simulated = run.options.dry_run
    if run.options.on_layer:
        with suppress(ProviderUnavailable):  # there are no layers here any more, and nothing of it was applied
            if (batch := find_batch_layer(services.workspace, run)) is not None:
                batch.keep("cancelled") if is_cancelled and not is_simulated else batch.discard()
    if is_simulated:
        message = f"{why}, so everything would have been undone. This was a dry run: nothing was changed."
        return services.events.write_error("execution", message, details)
    if run.options.on_layer:
        return services.events.write_error("execution", f"{why}, so everything was undone.", details)
    try:
        left = services.workspace.pipeline.undo_run(run)
    except (OSError, WapError) as error:
        text = error.text if isinstance(error, WapError) else type(error).__name__
        message = f"{why}, and it could not be undone: {text}"
        return services.events.write_error("system", message, {**details, "notUndone": ["."]})
    if not left:
        return services.events.write_error("execution", f"{why}, so everything was undone.", details)
    message = (
        f"{why}. Everything was undone but the paths in notUndone: they changed since, are protected, or have no copy."
    )
    return services.events.write_error("execution", message, {**details, "notUndone": left})


def repeat_refusal(approval: Approval) -> ApprovalRequired:
    """Return the refusal that an approval was created for, to create another one for the same operation."""
    details, reason = approval.details, str(approval.details["reason"])
    return ApprovalRequired(reason, hint=details.get("suggestion"), rule=details.get("rule"), reason=reason)


def describe_approval(approval: Approval) -> dict[str, Any]:
    """Return the details of an `approvalRequired` event, without what only a person may see."""
    left_out = {"operationId", "reason", *approval.private}
    return {"approvalId": approval.id} | {key: value for key, value in approval.details.items() if key not in left_out}
