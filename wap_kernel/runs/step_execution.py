"""One operation of a run: performed, played in a dry run, or turned into a question. On the workspace's threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wap_kernel.engine.bulk_create import NewFile
from wap_kernel.engine.execution_options import ExecutionOptions
from wap_kernel.engine.fast_path import Plain
from wap_kernel.files.interface import Files
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import ApprovalRequired, ExecutionFailed, RateLimited, WapError
from wap_kernel.model.limits import MAX_PENDING_APPROVALS
from wap_kernel.model.operations import Effect, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.results import Result
from wap_kernel.model.run import Approval, Run, RunStatus, Step
from wap_kernel.policy.current import Binding
from wap_kernel.policy.verdict import VerdictKind
from wap_kernel.redaction.results import redacted
from wap_kernel.runs.approval_evidence import bind_operation
from wap_kernel.runs.services import RunServices
from wap_kernel.runs.store.outputs import OutputSpill
from wap_kernel.state.undo.change_recorder import NotKept
from wap_kernel.state.undo.preview_diff import difference

MAX_BULK_FILES = 16
"""New files that are under way at once: so many may be there without their events after a crash. All or nothing needs
to know better, so there it is one."""
MAX_BULK_BYTES = 8 * 1024 * 1024
"""Bytes of them: what takes long must be cancelled sooner."""


@dataclass(frozen=True)
class StepOutcome:
    event: dict[str, Any]
    result: Result | None = None
    is_failure: bool = False


@dataclass(frozen=True)
class PendingApproval:
    approval: Approval


class StepExecution:
    def __init__(
        self, parts: RunServices, run: Run, approval: Approval | None, overlay: Files | None, tell: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._run = run
        self._approval = approval
        self._overlay = overlay
        self._tell = tell
        self._binding: Binding | None = None
        self._plain: Plain | None = None
        self._shared = CallContext()

    def look_up_policy(self) -> None:
        """Once for operations that follow each other within a moment."""
        self._binding = self._parts.workspace.judge.binding(self._run.caller)
        # A single call's answer is made of more than a plain read finds, and a dry run has files of its own.
        if self._overlay is None and self._run.dialect not in self._parts.encoders:
            self._plain = self._parts.workspace.pipeline.plain(self._binding)

    def plainly(self, steps: Sequence[Step], position: int, cancel: CancelToken) -> list[StepOutcome | WapError]:
        """What became of the first of these, where they are plain (see `plain.py`); where there is none, `perform` the
        first."""
        if self._plain is None or (self._approval is not None and self._approval.position >= position):
            return []
        operation = steps[0].operation
        if type(operation) is ReadFile:
            return self._read(self._plain, steps[0], operation)
        return self._make(self._plain, steps, position, cancel) if self._plain.makes(operation) else []

    def _read(self, plain: Plain, step: Step, operation: ReadFile) -> list[StepOutcome | WapError]:
        context = self._sharing(step.tool)
        whole = self._parts.workspace.pipeline.read_plainly(plain, operation, self._run.caller, context, step.id)
        return [] if whole is None else [StepOutcome(self._parts.events.read(step.id, operation, whole))]

    def _make(self, plain: Plain, steps: Sequence[Step], position: int, cancel: CancelToken) -> list[StepOutcome | WapError]:
        wanted: dict[str, NewFile] = {}
        size = 0
        for number, step in enumerate(steps[: 1 if self._run.options.atomic else MAX_BULK_FILES]):
            operation = step.operation
            if not (isinstance(operation, WriteFile) and plain.makes(operation)) or step.tool != steps[0].tool:
                break
            new = NewFile(position + number, step.id, operation)
            size += len(operation.content)
            if new.path in wanted or (wanted and size > MAX_BULK_BYTES):
                break
            wanted[new.path] = new
        context, files = self._sharing(steps[0].tool), list(wanted.values())
        made = self._parts.workspace.pipeline.make_plainly(plain, files, self._run.caller, context, cancel)
        done = self._parts.events.done
        return [
            result if isinstance(result, WapError) else StepOutcome(done(new.step, new.operation, result))
            for new, result in zip(files, made, strict=False)
        ]

    def _sharing(self, tool: str) -> CallContext:
        """A context for many operations that differ in nothing else."""
        if self._shared.tool != tool:
            self._shared = CallContext(dialect=self._run.dialect, tool=tool, run=self._run.id)
        return self._shared

    def perform(self, step: Step, position: int, cancel: CancelToken) -> StepOutcome | PendingApproval:
        """Or a WapError."""
        if self._overlay is not None:
            return self._play(step, position, self._overlay, cancel)
        approval = self._approval if self._approval and self._approval.position == position else None
        operation = step.operation
        if approval is not None:
            # Between the decision and now: what was agreed to must still be what would happen.
            if self._parts.questions.changed(approval, step, self._run.caller, is_decided=True):
                return self._ask(step, position, repeat_refusal(approval))
            operation = bind_operation(operation, approval)
        try:
            return self._really(step, position, operation, approval, cancel)
        except ApprovalRequired as refusal:
            return self._ask(step, position, refusal)

    def _really(
        self, step: Step, position: int, operation: Operation, approval: Approval | None, cancel: CancelToken
    ) -> StepOutcome:
        spill: OutputSpill | None = None
        if isinstance(operation, RunCommand):
            spill = self._parts.outputs.spill(self._run.id, position, self._tell)
        notices: list[NotKept] = []
        context = CallContext(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=position,
            step=step.id,
            notice=lambda not_kept: self._notice(step, not_kept, notices),
        )
        options = ExecutionOptions(approved=approval is not None, binding=self._binding)
        try:
            result = self._parts.workspace.pipeline.perform(
                operation, self._run.caller, context, cancel, spill, options
            )
        finally:
            if spill is not None:
                spill.close()
        extra = {"notKept": notices[0].to_dict()["notKept"]} if notices else {}
        event = self._parts.events.done(step.id, operation, result, **extra)
        return StepOutcome(event, result, getattr(result, "exit_code", 0) != 0)

    def _notice(self, step: Step, not_kept: NotKept, notices: list[NotKept]) -> None:
        """Told before the command begins, to whoever watches, and again with its event."""
        not_kept = not_kept.visible(lambda path: self._parts.workspace.judge.may_name(path, self._run.caller))
        if not not_kept:
            return
        notices.append(not_kept)
        said = {"runId": self._run.id, "status": RunStatus.RUNNING.value, "operationId": step.id}
        self._parts.ledger.tell(self._run.id, {**said, **not_kept.to_dict()})
        self._tell()

    def _ask(self, step: Step, position: int, refusal: ApprovalRequired) -> PendingApproval:
        caller = self._run.caller
        if caller.token is not None and self._parts.ledger.waiting(caller.token) >= MAX_PENDING_APPROVALS:
            raise too_many_pending()
        return PendingApproval(self._parts.questions.ask(self._run.id, position, step, caller, refusal))

    def _play(self, step: Step, position: int, overlay: Files, cancel: CancelToken) -> StepOutcome:
        """File operations on the overlay, with what would be said to them; commands not at all."""
        workspace, caller, operation = self._parts.workspace, self._run.caller, step.operation
        verdict = workspace.judge.checked(operation, caller)
        said: dict[str, Any] = {"simulated": True, "verdict": verdict.kind.value, "rule": verdict.rule}
        context = CallContext(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=position,
            step=step.id,
            dry_run=True,
        )
        options = ExecutionOptions(approved=operation.effect is not Effect.READ, overlay=overlay)
        if isinstance(operation, RunCommand) and verdict.kind is not VerdictKind.DENY:
            error = ExecutionFailed("Commands are not simulated in a dry run.")
            return StepOutcome({**self._parts.events.failed(step.id, operation, error), **said, "simulated": False})
        if operation.effect is Effect.READ and verdict.kind is VerdictKind.ASK:
            # Reading is what a person would have to agree to, dry run or not.
            event = self._parts.events.approval(step.id, operation, verdict.reason, {"rule": verdict.rule})
            return StepOutcome({**event, "simulated": False, "verdict": verdict.kind.value})
        may_show = self._parts.questions.may_show(operation, caller)
        shown = difference(overlay.guarded_by(workspace.judge.binding(caller).guard), operation) if may_show else {}
        shown = redacted(shown, workspace.redactor.without_known)
        try:
            result = workspace.pipeline.perform(operation, caller, context, cancel, options=options)
        except WapError as error:
            if cancel.requested:
                raise
            return StepOutcome({**self._parts.events.failed(step.id, operation, error), **said}, is_failure=True)
        return StepOutcome({**self._parts.events.done(step.id, operation, result), **shown, **said}, result)


def too_many_pending() -> RateLimited:
    return RateLimited(
        f"{MAX_PENDING_APPROVALS} runs of this agent wait for a person already.",
        hint="Have them decided, or cancel them.",
        limit="waitingRuns",
        retryAfterMs=60_000,
    )


def repeat_refusal(approval: Approval) -> ApprovalRequired:
    reason = str(approval.shown["reason"])
    return ApprovalRequired(
        reason, hint=approval.shown.get("suggestion"), rule=approval.shown.get("rule"), reason=reason
    )
