"""One operation of a run: performed, played in a dry run, or turned into a question. On the workspace's threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wap_kernel.commands.outcome import Cancel
from wap_kernel.context import Context
from wap_kernel.errors import ApprovalRequired, ExecutionFailed, RateLimited
from wap_kernel.files.primitives import Files
from wap_kernel.operations import Effect, Operation, RunCommand
from wap_kernel.policy.current import Binding
from wap_kernel.policy.verdict import Answer
from wap_kernel.results import Result
from wap_kernel.runner.parts import Parts
from wap_kernel.runs.differences import difference
from wap_kernel.runs.evidence import bound
from wap_kernel.runs.model import Approval, Run, Status, Step
from wap_kernel.runs.outputs import Spill
from wap_kernel.runs.snapshots import NotKept

MAX_WAITING = 100
"""Runs of one agent token that may wait for a person: nobody answers more questions than that."""


@dataclass(frozen=True)
class Done:
    event: dict[str, Any]
    result: Result | None = None
    is_failure: bool = False


@dataclass(frozen=True)
class Asked:
    approval: Approval


class Performing:
    def __init__(
        self, parts: Parts, run: Run, approval: Approval | None, overlay: Files | None, tell: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._run = run
        self._approval = approval
        self._overlay = overlay
        self._tell = tell
        self._binding: Binding | None = None

    def look_up_policy(self) -> None:
        """Once for operations that follow each other within a moment."""
        self._binding = self._parts.workspace.judge.binding(self._run.caller)

    def perform(self, step: Step, position: int, cancel: Cancel) -> Done | Asked:
        """Or a WapError."""
        if self._overlay is not None:
            return self._play(step, position, self._overlay, cancel)
        approval = self._approval if self._approval and self._approval.position == position else None
        operation = step.operation
        if approval is not None:
            # Between the decision and now: what was agreed to must still be what would happen.
            if self._parts.questions.changed(approval, step, self._run.caller, is_decided=True):
                return self._ask(step, position, _again(approval))
            operation = bound(operation, approval)
        try:
            return self._really(step, position, operation, approval, cancel)
        except ApprovalRequired as refusal:
            return self._ask(step, position, refusal)

    def _really(
        self, step: Step, position: int, operation: Operation, approval: Approval | None, cancel: Cancel
    ) -> Done:
        spill: Spill | None = None
        if isinstance(operation, RunCommand):
            spill = self._parts.outputs.spill(self._run.id, position, self._tell)
        notices: list[NotKept] = []
        context = Context(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=position,
            step=step.id,
            approved=approval is not None,
            binding=self._binding,
            notice=lambda not_kept: self._notice(step, not_kept, notices),
        )
        try:
            result = self._parts.workspace.perform_now(operation, self._run.caller, context, cancel, spill)
        finally:
            if spill is not None:
                spill.close()
        extra = {"notKept": notices[0].to_dict()["notKept"]} if notices else {}
        event = self._parts.events.done(step.id, operation, result, **extra)
        return Done(event, result, getattr(result, "exit_code", 0) != 0)

    def _notice(self, step: Step, not_kept: NotKept, notices: list[NotKept]) -> None:
        """Told before the command begins, to whoever watches, and again with its event."""
        not_kept = not_kept.visible(lambda path: self._parts.workspace.judge.may_read(path, self._run.caller))
        notices.append(not_kept)
        said = {"runId": self._run.id, "status": Status.RUNNING.value, "operationId": step.id}
        self._parts.ledger.tell(self._run.id, {**said, **not_kept.to_dict()})
        self._tell()

    def _ask(self, step: Step, position: int, refusal: ApprovalRequired) -> Asked:
        caller = self._run.caller
        if caller.token is not None and self._parts.ledger.waiting(caller.token) >= MAX_WAITING:
            raise too_many_waiting()
        return Asked(self._parts.questions.ask(self._run.id, position, step, caller, refusal))

    def _play(self, step: Step, position: int, overlay: Files, cancel: Cancel) -> Done:
        """File operations on the overlay, with what would be said to them; commands not at all."""
        workspace, caller, operation = self._parts.workspace, self._run.caller, step.operation
        verdict = workspace.judge.checked(operation, caller)
        said: dict[str, Any] = {"simulated": True, "verdict": verdict.answer.value, "rule": verdict.rule}
        context = Context(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=position,
            step=step.id,
            approved=operation.effect is not Effect.READ,
            overlay=overlay,
        )
        if isinstance(operation, RunCommand) and verdict.answer is not Answer.DENY:
            error = ExecutionFailed("Commands are not simulated in a dry run.")
            return Done({**self._parts.events.failed(step.id, operation, error), **said, "simulated": False})
        if operation.effect is Effect.READ and verdict.answer is Answer.ASK:
            # Reading is what a person would have to agree to, dry run or not.
            event = self._parts.events.approval(step.id, operation, verdict.reason, {"rule": verdict.rule})
            return Done({**event, "simulated": False, "verdict": verdict.answer.value})
        may_show = self._parts.questions.may_show(operation, caller)
        shown = difference(overlay.guarded_by(workspace.judge.binding(caller).guard), operation) if may_show else {}
        result = workspace.perform_now(operation, caller, context, cancel)
        return Done({**self._parts.events.done(step.id, operation, result), **shown, **said}, result)


def too_many_waiting() -> RateLimited:
    return RateLimited(
        f"{MAX_WAITING} runs of this agent wait for a person already.",
        hint="Have them decided, or cancel them.",
        limit="waitingRuns",
        retryAfterMs=60_000,
    )


def _again(approval: Approval) -> ApprovalRequired:
    reason = str(approval.shown["reason"])
    return ApprovalRequired(
        reason, hint=approval.shown.get("suggestion"), rule=approval.shown.get("rule"), reason=reason
    )
