"""Executing one run: its operations in order, on the workspace's threads, an event stored after each.

Reads that follow each other are done in one slice on one thread, and so are writes; a command has a thread to itself.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from wap_kernel.caller import Caller
from wap_kernel.commands.outcome import Cancel
from wap_kernel.context import Context
from wap_kernel.errors import ApprovalRequired, ExecutionFailed, WapError
from wap_kernel.files.primitives import Files
from wap_kernel.operations import Effect, Operation, Result, RunCommand
from wap_kernel.policy.current import Binding
from wap_kernel.policy.verdict import Answer
from wap_kernel.runs.ledger import Event, Ledger
from wap_kernel.runs.live import Hub
from wap_kernel.runs.model import Approval, Run, Status, Step
from wap_kernel.runs.outputs import Outputs, Spill
from wap_kernel.runs.questions import Questions, bound, difference
from wap_kernel.runs.snapshots import NotKept
from wap_kernel.workspace import Workspace

SLICE_SECONDS = 0.05
SLICE_STEPS = 200
"""Then the thread is given back: a long batch must not keep others waiting."""

Category = Literal["validation", "policy", "execution", "timeout", "system"]
Admission = Callable[[Caller, Operation], AbstractAsyncContextManager[None]]
"""Around an operation: counts it for whoever is limited, or raises."""
Respond = Callable[[str, Result], dict[str, Any]]
"""A dialect's own answer of a tool."""


class Events(Protocol):
    """How events are written."""

    def done(self, step_id: str, operation: Operation, result: Result, **extra: Any) -> dict[str, Any]: ...
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
    """What every execution uses."""

    workspace: Workspace
    ledger: Ledger
    outputs: Outputs
    hub: Hub
    events: Events
    questions: Questions
    admission: Admission
    responses: Mapping[str, Respond]
    undo: Callable[[Run], list[str]]
    """Undoes what the run changed so far; returns what could not be."""
    changed: Callable[[Run], None]
    """Told when a run has another status."""


@dataclass
class _Stop:
    """Why a slice ended before its time."""

    asked: Approval | None = None
    failed: bool = False


class Execution:
    """One run, for as long as this process executes it."""

    def __init__(
        self,
        parts: Parts,
        run: Run,
        *,
        approval: Approval | None = None,
        overlay: Files | None = None,
    ) -> None:
        self._parts = parts
        self._run = run
        self._approval = approval
        self._refused = {name: WapError.from_dict(error) for name, error in run.options.refused.items()}
        self._overlay = overlay
        self._position = run.position
        self._events: list[Event] = []
        self._stored: list[Future[None]] = []
        self._response: dict[str, Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._binding: Binding | None = None
        """The policy, looked up once for each slice."""
        self._was_cut = False
        """The last operation is a command that was ended."""
        self.cancel = Cancel()
        self.stopped: WapError | None = None
        """Why it is cancelled, if nobody asked for that."""

    async def go(self) -> Status:
        """Until it has ended, or asks."""
        try:
            return await self._steps()
        except WapError as error:
            return await self._end_badly(error)
        except Exception as error:  # noqa: BLE001 - a bug; a run must not look as if it went on
            return await self._end_badly(self._parts.workspace.bug(error, "a run"))

    async def _steps(self) -> Status:
        while self._position < self._run.count and not self.cancel.requested:
            stop = await self._slice()
            if stop.asked is not None and not self.cancel.requested:
                return await self._pause(stop.asked)
            if stop.failed and self._run.options.atomic and not self.cancel.requested:
                return await self._undo(Status.ERROR, "An operation failed")
        if self._position < self._run.count or self._was_cut:
            return await self._ended_early()
        return await self._finish(Status.COMPLETED)

    async def _ended_early(self) -> Status:
        if self.stopped is not None:
            return await self._end_badly(self.stopped)
        if self._run.options.atomic:
            return await self._undo(Status.CANCELLED, "The run was cancelled")
        return await self._finish(Status.CANCELLED)

    # -- slices

    async def _slice(self) -> _Stop:
        first = self._run.steps[self._position]
        if first.id in self._refused:
            return await self._refuse(first, self._refused[first.id])
        caller, workspace = self._run.caller, self._parts.workspace
        try:
            async with self._parts.admission(caller, first.operation):
                # Whoever is counted is counted operation by operation; reads only cost time.
                limit = 1 if caller.token and first.operation.effect is not Effect.READ else SLICE_STEPS
                return await workspace.on_thread(type(first.operation), lambda: self._on_thread(limit))
        except WapError as error:
            return await self._refuse(first, error)
        finally:
            self._parts.hub.wake(self._run.id)

    async def _refuse(self, step: Step, error: WapError) -> _Stop:
        self._parts.workspace.refused(step.tool, error, self._run.caller)
        return await self._parts.workspace.offload(lambda: self._failed(step, error, flush=True))

    def _on_thread(self, limit: int) -> _Stop:
        first = self._run.steps[self._position]
        until = time.monotonic() + SLICE_SECONDS
        steps = itertools.islice(self._run.steps, self._position, self._position + limit)
        stop = _Stop()
        self._binding = self._parts.workspace.judge.binding(self._run.caller)
        for step in itertools.takewhile(lambda step: self._belongs(step, first), steps):
            stop = self._step(step)
            if stop.asked or stop.failed or self.cancel.requested or time.monotonic() >= until:
                break
        self._settle()
        return stop

    def _belongs(self, step: Step, first: Step) -> bool:
        if step is first:
            return True
        kinds = (step.operation.effect, first.operation.effect)
        return kinds in ((Effect.READ, Effect.READ), (Effect.WRITE, Effect.WRITE)) and step.id not in self._refused

    def _step(self, step: Step) -> _Stop:
        if self._overlay is not None:
            return self._play(step, self._overlay)
        approval = self._approval if self._approval and self._approval.position == self._position else None
        operation = bound(step.operation, approval) if approval else step.operation
        spill: Spill | None = None
        if isinstance(operation, RunCommand):
            spill = self._parts.outputs.spill(self._run.id, self._position, self._tell)
        notices: list[NotKept] = []

        def notice(not_kept: NotKept) -> None:
            """Told before the command begins, to whoever watches, and again with its event."""
            notices.append(not_kept)
            said = {"runId": self._run.id, "status": Status.RUNNING.value, "operationId": step.id}
            self._parts.ledger.tell(self._run.id, {**said, **not_kept.to_dict()})
            self._tell()

        context = Context(
            dialect=self._run.dialect,
            tool=step.tool,
            run=self._run.id,
            position=self._position,
            step=step.id,
            approved=approval is not None,
            binding=self._binding,
            notice=notice,
        )
        perform = self._parts.workspace.perform_now
        try:
            result = perform(operation, self._run.caller, context, self.cancel, spill)
        except ApprovalRequired as refusal:
            return _Stop(self._ask(step, refusal))
        except WapError as error:
            return self._failed(step, error)
        finally:
            if spill is not None:
                spill.close()
        extra = {"notKept": notices[0].to_dict()["notKept"]} if notices else {}
        self._store(self._parts.events.done(step.id, operation, result, **extra))
        self._respond(step, result)
        return _Stop(failed=getattr(result, "exit_code", 0) != 0)

    def _play(self, step: Step, overlay: Files) -> _Stop:
        """In a dry run: file operations on the overlay, with what would be said to them; commands not at all."""
        workspace, caller, operation = self._parts.workspace, self._run.caller, step.operation
        verdict = workspace.judge.checked(operation, caller)
        said: dict[str, Any] = {"simulated": True, "verdict": verdict.answer.value, "rule": verdict.rule}
        context = Context(dialect=self._run.dialect, tool=step.tool, step=step.id, approved=True, overlay=overlay)
        try:
            if isinstance(operation, RunCommand) and verdict.answer is not Answer.DENY:
                error = ExecutionFailed("Commands are not simulated in a dry run.")
                self._store({**self._parts.events.failed(step.id, operation, error), **said, "simulated": False})
                return _Stop()
            shown = difference(overlay.guarded_by(workspace.judge.binding(caller).guard), operation)
            result = workspace.perform_now(operation, caller, context, self.cancel)
        except WapError as error:
            return self._failed(step, error)
        self._store({**self._parts.events.done(step.id, operation, result), **shown, **said})
        return _Stop()

    def _ask(self, step: Step, refusal: ApprovalRequired) -> Approval:
        return self._parts.questions.ask(self._run.id, self._position, step, self._run.caller, refusal)

    def _failed(self, step: Step, error: WapError, *, flush: bool = False) -> _Stop:
        self._store(self._parts.events.failed(step.id, step.operation, error))
        self._was_cut = self.cancel.requested and self._position == self._run.count
        if self._run.dialect in self._parts.responses:
            self._response = refusal_of(error)
        if flush:
            self._settle()
        return _Stop(failed=True)

    def _respond(self, step: Step, result: Result) -> None:
        respond = self._parts.responses.get(self._run.dialect)
        if respond is not None:
            self._response = respond(step.tool, result)

    # -- storing

    def _store(self, event: Event) -> None:
        """After every event. What a change did is stored before the next one begins: its intent waits its turn in the
        same queue. Reads are stored together, at the end of their slice."""
        self._events.append(event)
        self._position += 1
        if self._run.steps[self._position - 1].operation.effect is not Effect.READ:
            self._hand_in()

    def _hand_in(self) -> None:
        events, self._events = self._events, []
        self._stored.append(self._parts.ledger.append(self._run.id, self._position, events))

    def _settle(self) -> None:
        if self._events:
            self._hand_in()
        if self._stored:
            self._parts.ledger.flush()
            stored, self._stored = self._stored, []
            for future in stored:
                future.result()

    def _tell(self) -> None:
        """From the thread of a command: there is output."""
        if self._parts.hub.is_watched(self._run.id):
            with suppress(RuntimeError):  # the loop is closed, so nobody watches any more
                self._loop.call_soon_threadsafe(self._parts.hub.wake, self._run.id)

    # -- ends

    async def _pause(self, approval: Approval) -> Status:
        step, reason = self._run.steps[self._position], str(approval.shown["reason"])
        event = self._parts.events.approval(step.id, step.operation, reason, details_of(approval))
        return await self._finish(Status.AWAITING_APPROVAL, events=[event], asked=approval)

    async def _undo(self, status: Status, why: str) -> Status:
        """All or nothing, so nothing."""
        last = self._run.steps[max(0, self._position - 1)]
        event = await self._parts.workspace.offload(lambda: undone(self._parts, self._run, why, last.id))
        return await self._finish(status, events=[event])

    async def _end_badly(self, error: WapError) -> Status:
        """The state cannot be written, or the workspace is closing: what can still be said is said."""
        under_way = self._run.steps[min(self._position, self._run.count - 1)] if self._run.count else None
        details = {"code": error.code.value, **({"operationId": under_way.id} if under_way else {})}
        try:
            return await self._finish(Status.ERROR, events=[self._parts.events.error("system", error.text, details)])
        except WapError:
            return Status.ERROR  # the next start finds it running with nobody to run it

    async def _finish(self, status: Status, **more: Any) -> Status:
        change = partial(self._parts.ledger.change, self._run.id, Status.RUNNING, status)
        await self._parts.workspace.offload(lambda: change(position=self._position, response=self._response, **more))
        self._parts.hub.wake(self._run.id)
        self._parts.changed(replace(self._run, status=status))
        return status


def undone(parts: Parts, run: Run, why: str, operation_id: str) -> dict[str, Any]:
    """Undo what an atomic run changed; the event that says so. On a thread."""
    left = parts.undo(run)
    details: dict[str, Any] = {"operationId": operation_id, "atomic": True}
    if not left:
        return parts.events.error("execution", f"{why}, so everything was undone.", details)
    said = f"{why}. Everything was undone but what has changed since or could not be kept."
    return parts.events.error("execution", said, {**details, "notUndone": left})


def details_of(approval: Approval) -> dict[str, Any]:
    """What an `approvalRequired` event says of it."""
    repeated = ("operationId", "reason")
    return {"approvalId": approval.id} | {key: value for key, value in approval.shown.items() if key not in repeated}


def refusal_of(error: WapError) -> dict[str, Any]:
    return {
        "error": error.text,
        "code": error.code.value,
        **({"details": error.details} if error.details else {}),
    }
