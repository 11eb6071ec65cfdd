"""What every part of the runner uses: the stores, how events are written, who is admitted, how a run is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.read import Whole
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, WapError
from wap_kernel.model.operations import Operation, ReadFile
from wap_kernel.model.results import Result
from wap_kernel.model.run import Approval, Run, Step
from wap_kernel.runs.approval_requests import Questions
from wap_kernel.runs.event_stream import Hub
from wap_kernel.runs.store.outputs import Outputs
from wap_kernel.runs.store.run_store import Ledger

CANCELLED = "The run was cancelled."
Category = Literal["validation", "policy", "execution", "timeout", "system"]
Admission = Callable[[Caller, Operation], AbstractAsyncContextManager[None]]
"""Around an operation: counts it for whoever is limited, or raises."""


class Events(Protocol):
    """How events are written."""

    def done(self, step_id: str, operation: Operation, result: Result, **extra: Any) -> dict[str, Any]: ...
    def read(self, step_id: str, operation: ReadFile, whole: Whole) -> dict[str, Any]:
        """What `done` says of the same."""

    def failed(self, step_id: str, operation: Operation, error: WapError) -> dict[str, Any]: ...
    def approval(
        self, step_id: str, operation: Operation, reason: str, details: Mapping[str, Any]
    ) -> dict[str, Any]: ...
    def denied(
        self,
        step_id: str,
        operation: Operation,
        reason: str,
        suggestion: str | None = None,
        rule: str | None = None,
    ) -> dict[str, Any]: ...
    def error(self, category: Category, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]: ...


class ResponseEncoder(Protocol):
    """Encode the responses of a dialect's single calls; the run of a call that waited stores its response."""

    def respond(self, step: Step, result: Result, /) -> dict[str, Any]: ...
    def refuse(self, step: Step, error: WapError, /) -> dict[str, Any]:
        """Return the response of a call that failed, or that was not performed."""


@dataclass(frozen=True)
class Parts:
    workspace: Workspace
    ledger: Ledger
    outputs: Outputs
    hub: Hub
    events: Events
    encoders: Mapping[str, ResponseEncoder]
    """The encoders of the dialects that have single calls, by dialect."""
    questions: Questions
    admission: Admission


def encode_result(parts: Parts, run: Run, step: Step, result: Result) -> dict[str, Any] | None:
    """Return the response that the run of a single call stores, in its dialect's own form; None for a batch."""
    encoder = parts.encoders.get(run.dialect)
    return None if encoder is None else encoder.respond(step, result)


def encode_error(parts: Parts, run: Run, error: WapError) -> dict[str, Any] | None:
    """Return the response of a single call that failed or was not performed; None for a batch."""
    encoder = parts.encoders.get(run.dialect)
    return None if encoder is None else encoder.refuse(run.steps[0], error)


def encode_withdrawal(parts: Parts, run: Run, why: str) -> dict[str, Any] | None:
    """Return the response of a single call that never began. No person denied it, so no policy is in its way."""
    hint = "Nothing was done. Call again if it is still wanted: a person is asked anew."
    return encode_error(parts, run, ApprovalRequired(why, hint=hint, runId=run.id))


def undone(parts: Parts, run: Run, why: str, operation_id: str) -> dict[str, Any]:
    """Undo what an atomic run changed; the event that says what became of that. On a thread, by the run's owner."""
    details: dict[str, Any] = {"operationId": operation_id, "atomic": True}
    if run.options.dry_run:
        said = f"{why}, so everything would have been undone. This was a dry run: nothing was changed."
        return parts.events.error("execution", said, details)
    try:
        left = parts.workspace.pipeline.take_back(run)
    except (OSError, WapError) as error:
        text = error.text if isinstance(error, WapError) else type(error).__name__
        said = f"{why}, and it could not be undone: {text}"
        return parts.events.error("system", said, {**details, "notUndone": ["."]})
    if not left:
        return parts.events.error("execution", f"{why}, so everything was undone.", details)
    said = f"{why}. Everything was undone but what is named: it has changed since, is protected, or could not be kept."
    return parts.events.error("execution", said, {**details, "notUndone": left})


def details_of(approval: Approval) -> dict[str, Any]:
    """What an `approvalRequired` event says of it; its reader may be the one who asks."""
    left_out = {"operationId", "reason", *approval.private}
    return {"approvalId": approval.id} | {key: value for key, value in approval.shown.items() if key not in left_out}
