"""What every part of the runner uses: the stores, how events are written, who is admitted, how a run is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wap_kernel.dialects.registry import ANSWERS
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


@dataclass(frozen=True)
class Parts:
    workspace: Workspace
    ledger: Ledger
    outputs: Outputs
    hub: Hub
    events: Events
    questions: Questions
    admission: Admission


def answer(run: Run, step: Step, result: Result) -> dict[str, Any] | None:
    """What the run keeps if it is a single call's: the dialect's own answer."""
    answers = ANSWERS.get(run.dialect)
    return None if answers is None else answers.respond(step, result)


def refusal(run: Run, error: WapError) -> dict[str, Any] | None:
    """The same of a single call that failed, or that was not performed."""
    answers = ANSWERS.get(run.dialect)
    return None if answers is None else answers.refuse(run.steps[0], error)


def given_up(run: Run, why: str) -> dict[str, Any] | None:
    """The same of one that was not even begun. Nobody said no, so no policy is in the way."""
    hint = "Nothing was done. Call again if it is still wanted: a person is asked anew."
    return refusal(run, ApprovalRequired(why, hint=hint, runId=run.id))


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
