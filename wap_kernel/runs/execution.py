"""Execute one run: its operations in order, on the workspace's threads, with an event stored after each.

A slice is what one thread does at a time: several reads, or several writes, or one command.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_json

from wap_kernel.engine.effects.approval import UnapprovedEffect
from wap_kernel.files.interface import Files
from wap_kernel.model.caller import CallContext
from wap_kernel.model.command import CancelToken, OperationCancelled
from wap_kernel.model.errors import TooLarge, WapError
from wap_kernel.model.limits import MAX_RUN_EVENT_CHARACTERS
from wap_kernel.model.operations import Effect
from wap_kernel.model.run import Approval, Run, RunStatus, Step
from wap_kernel.policy.verdict import VerdictKind
from wap_kernel.runs.batch_layer import describe_conflicts, find_batch_layer
from wap_kernel.runs.services import (
    CANCELLED,
    RunServices,
    describe_approval,
    encode_error,
    encode_result,
    encode_withdrawal,
    undo_run,
)
from wap_kernel.runs.step_execution import StepExecution, StepOutcome, StepPause
from wap_kernel.runs.store import rows
from wap_kernel.state.database import wait_for

SLICE_SECONDS = 0.05
SLICE_STEPS = 200
"""Steps of a slice. After them, or after SLICE_SECONDS, the thread is released: a long batch must not block others."""


@dataclass
class _SliceEnd:
    """The reason why a slice ended early, if there is one."""

    approval: Approval | None = None
    """Approval that the run pauses for."""
    failed: bool = False


class RunExecution:
    """The execution of one run by this process, until the run has ended or pauses for approval."""

    def __init__(
        self, services: RunServices, run: Run, *, approval: Approval | None = None, overlay: Files | None = None
    ) -> None:
        self._services = services
        self._run = run
        self._refused = {name: WapError.from_dict(error) for name, error in run.options.refused.items()}
        self._batch = find_batch_layer(services.workspace, run)
        self._step_execution = StepExecution(services, run, approval, overlay, self._batch, self._notify)
        self._approval = approval
        self._position = run.position
        self._events: list[str] = []
        self._problems = 0
        """Number of problems among `_events`."""
        self._event_characters = 0
        self._stored: list[Future[None]] = []
        self._response: dict[str, Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._interrupted: Step | None = None
        """Step that a cancel made fail, such as a command that was killed."""
        self.cancel = CancelToken()
        self.stopped: WapError | None = None
        """Error that ends the run, if the server cancels it and no caller did."""

    @property
    def token(self) -> str | None:
        """Return the id of the agent token that the run was sent with."""
        return self._run.caller.token

    async def execute(self) -> RunStatus:
        """Execute the run until it has ended or pauses for approval; return its status then."""
        try:
            return await self._execute_batch()
        except WapError as error:
            return await self._end_badly(error, self._next_step)
        except Exception as error:  # noqa: BLE001 - a bug; a run must not look as if it went on
            return await self._end_badly(self._services.workspace.bug(error, "a run"), self._next_step)

    async def _execute_batch(self) -> RunStatus:
        """Execute the steps; unmount the layer of the run afterwards, or discard that of a dry run."""
        try:
            return await self._execute_steps()
        finally:
            if self._batch is not None:
                is_simulated = self._run.options.dry_run
                await self._services.workspace.offload(self._batch.discard if is_simulated else self._batch.release)

    @property
    def _next_step(self) -> Step | None:
        return self._run.steps[self._position] if self._position < self._run.count else None

    async def _execute_steps(self) -> RunStatus:
        while self._position < self._run.count and not self.cancel.requested:
            end = await self._execute_slice()
            if end.approval is not None and not self.cancel.requested:
                return await self._pause(end.approval)
            if end.failed and self._run.options.atomic and not self.cancel.requested:
                return await self._undo(RunStatus.ERROR, "An operation failed")
        if self._position < self._run.count or self._interrupted is not None:
            return await self._end_early()
        return await self._complete()

    async def _complete(self) -> RunStatus:
        """Apply the layer of an atomic run, all or nothing, and end the run; or pause where its effect needs approval.

        The approval is that of the last step, and the position of the run tells that the step is done.
        """
        batch = self._batch
        if batch is None or self._run.options.dry_run:
            return await self._finish(RunStatus.COMPLETED)
        approval = self._approval if self._run.position == self._run.count else None
        try:
            result = await self._services.workspace.offload(lambda: batch.apply(self._services.workspace, approval))
        except UnapprovedEffect as refusal:
            last = self._run.count - 1
            pause = await self._services.workspace.offload(
                partial(self._step_execution.pause, self._run.steps[last], last, refusal)
            )
            return await self._pause(pause.approval)
        if not result.conflicts:
            return await self._finish(RunStatus.COMPLETED)
        event = self._services.events.write_error("execution", *describe_conflicts(result.conflicts))
        return await self._finish(RunStatus.ERROR, events=[event])

    async def _end_early(self) -> RunStatus:
        if self.stopped is not None:
            return await self._end_badly(self.stopped, self._interrupted)
        self._response = self._response or encode_withdrawal(self._services, self._run, CANCELLED)
        if self._run.options.atomic:
            return await self._undo(RunStatus.CANCELLED, "The run was cancelled")
        return await self._finish(RunStatus.CANCELLED)

    # -- slices

    async def _execute_slice(self) -> _SliceEnd:
        first = self._run.steps[self._position]
        if first.id in self._refused:
            return await self._refuse(first, self._refused[first.id])
        is_admitted = False
        try:
            async with self._services.admission(self._run.caller, first.operation):
                is_admitted = True
                # The changes of an agent are admitted one by one; reads only cost time.
                is_counted = self._run.caller.token and first.operation.effect is not Effect.READ
                return await self._wait_for_thread(first, 1 if is_counted else SLICE_STEPS)
        except WapError as error:
            if is_admitted:  # the state cannot be written: that is no failure of an operation
                raise
            return await self._refuse(first, error)
        finally:
            self._services.notifier.notify(self._run.id)

    async def _wait_for_thread(self, first: Step, limit: int) -> _SliceEnd:
        """Execute a slice on a thread; a cancel that comes while all threads are busy does not wait for one."""
        cancelled = asyncio.Event()
        # Acquired once, by the thread that begins the slice or by the cancel that gives it up.
        start = threading.Lock()

        def work() -> _SliceEnd:
            return self._execute_on_thread(limit) if start.acquire(blocking=False) else _SliceEnd()

        slicing = asyncio.ensure_future(self._services.workspace.on_thread(type(first.operation), work))
        with self.cancel.on_request(partial(self._loop.call_soon_threadsafe, cancelled.set)):
            waiting = asyncio.ensure_future(cancelled.wait())
            await asyncio.wait({slicing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if not slicing.done() and start.acquire(blocking=False):  # it has not begun, and never will
            slicing.cancel()
            return _SliceEnd()
        return await slicing

    async def _refuse(self, step: Step, error: WapError) -> _SliceEnd:
        context = CallContext(dialect=self._run.dialect, tool=step.tool, run=self._run.id, step=step.id)
        self._services.workspace.audit_refusal(step.tool, error, self._run.caller, step.operation, context)
        return await self._services.workspace.offload(lambda: self._record_failure(step, error, flush=True))

    def _execute_on_thread(self, limit: int) -> _SliceEnd:
        start, first = self._position, self._run.steps[self._position]
        until = time.monotonic() + SLICE_SECONDS
        following = itertools.islice(self._run.steps, start, start + limit)
        steps = list(itertools.takewhile(lambda step: self._is_in_slice(step, first), following))
        end = _SliceEnd()
        self._step_execution.load_policy()
        while self._position < start + len(steps):
            end = self._execute_next(steps[self._position - start :])
            # The event of a change is queued before the intent of the next change is, and so stored before it.
            # Reads are stored together, at the end of their slice.
            if first.operation.effect is not Effect.READ:
                self._queue_events()
            if end.approval or end.failed or self.cancel.requested or time.monotonic() >= until:
                break
        self._flush()
        return end

    def _is_in_slice(self, step: Step, first: Step) -> bool:
        if step is first:
            return True
        kinds = (step.operation.effect, first.operation.effect)
        return kinds in ((Effect.READ, Effect.READ), (Effect.WRITE, Effect.WRITE)) and step.id not in self._refused

    def _execute_next(self, steps: Sequence[Step]) -> _SliceEnd:
        """Execute the first step, or several of the first steps together on the fast path."""
        outcomes = self._step_execution.perform_on_fast_path(steps, self._position, self.cancel)
        if not outcomes:
            return self._execute_step(steps[0])
        ends = [self._record(step, outcome) for step, outcome in zip(steps, outcomes, strict=False)]
        return _SliceEnd(failed=any(end.failed for end in ends))

    def _execute_step(self, step: Step) -> _SliceEnd:
        try:
            outcome = self._step_execution.perform(step, self._position, self.cancel)
        except WapError as error:
            return self._record_failure(step, error)
        return _SliceEnd(outcome.approval) if isinstance(outcome, StepPause) else self._record(step, outcome)

    def _record(self, step: Step, outcome: StepOutcome | WapError) -> _SliceEnd:
        if isinstance(outcome, WapError):
            return self._record_failure(step, outcome)
        text = to_json(outcome.event).decode()
        if self._event_characters + len(text) > MAX_RUN_EVENT_CHARACTERS and step.operation.effect is Effect.READ:
            hint = "Read the rest in another run, or in parts."
            return self._record_failure(
                step, TooLarge(f"The events of a run hold {MAX_RUN_EVENT_CHARACTERS} characters.", hint=hint)
            )
        self._add_event(text, is_problem=rows.is_problem(outcome.event))
        if outcome.result is not None:
            self._response = encode_result(self._services, self._run, step, outcome.result)
        return _SliceEnd(failed=outcome.is_failure)

    def _record_failure(self, step: Step, error: WapError, *, flush: bool = False) -> _SliceEnd:
        event = self._services.events.write_failure(step.id, step.operation, error)
        if self._run.options.dry_run:  # the step was refused or cancelled before policy decided on it
            verdict = {"verdict": VerdictKind.DENY.value} if event["type"] == "policyDenied" else {}
            event = {**event, "simulated": True, **verdict}
        self._add_event(to_json(event).decode(), is_problem=True)
        self._interrupted = step if self.cancel.requested else None
        is_withdrawn = isinstance(error, OperationCancelled) and self.stopped is None
        self._response = (
            encode_withdrawal(self._services, self._run, CANCELLED)
            if is_withdrawn
            else encode_error(self._services, self._run, error)
        )
        if flush:
            self._flush()
        return _SliceEnd(failed=True)

    # -- storing

    def _add_event(self, event: str, *, is_problem: bool) -> None:
        self._events.append(event)
        self._problems += is_problem
        self._event_characters += len(event)
        self._position += 1

    def _queue_events(self) -> None:
        if self._events:
            events, self._events = self._events, []
            problems, self._problems = self._problems, 0
            self._stored.append(
                self._services.store.append(self._run.id, self._position, events, problems, self._response)
            )

    def _flush(self) -> None:
        self._queue_events()
        if self._stored:
            self._services.store.flush()
            stored, self._stored = self._stored, []
            for future in stored:
                wait_for(future)

    def _notify(self) -> None:
        """Notify the streams that a command has output; called on the thread of the command."""
        if self._services.notifier.has_subscribers(self._run.id):
            with suppress(RuntimeError):  # the loop is closed, and all streams with it
                self._loop.call_soon_threadsafe(self._services.notifier.notify, self._run.id)

    # -- ends

    async def _pause(self, approval: Approval) -> RunStatus:
        if self._batch is not None:  # the process that decides may be another one
            await self._services.workspace.offload(self._batch.release)
        step, reason = self._run.steps[approval.position], str(approval.details["reason"])
        event = self._services.events.write_approval(step.id, step.operation, reason, describe_approval(approval))
        return await self._finish(RunStatus.AWAITING_APPROVAL, events=[event], new_approval=approval)

    async def _undo(self, status: RunStatus, why: str) -> RunStatus:
        """Undo everything that an atomic run changed, and end it."""
        last = self._run.steps[max(0, self._position - 1)]
        is_cancelled = status is RunStatus.CANCELLED
        event = await self._take_back(why, last.id, is_cancelled=is_cancelled)
        return await self._finish(status, events=[event])

    async def _take_back(self, why: str, operation_id: str, *, is_cancelled: bool = False) -> dict[str, Any]:
        """Take back everything that the run changed, and return the event that says so."""

        def take_back() -> dict[str, Any]:
            if self._batch is not None:
                self._batch.release()
            return undo_run(self._services, self._run, why, operation_id, is_cancelled=is_cancelled)

        return await self._services.workspace.offload(take_back)

    async def _end_badly(self, error: WapError, under_way: Step | None) -> RunStatus:
        """End the run with an error: the state cannot be written, the workspace is closing, or there is a bug."""
        message, name = error.text, under_way.id if under_way else ""
        details: dict[str, Any] = {"code": error.code.value, "position": self._position}
        if under_way is not None:
            message = f'{message} It was at operation "{under_way.id}" ({under_way.tool}).'
            details |= {"operationId": under_way.id, "operationType": under_way.tool}
        events = [self._services.events.write_error("system", message, details)]
        self._response = self._response or encode_error(self._services, self._run, error)
        try:
            if self._run.options.atomic:
                why = "The run did not end"
                events.append(await self._take_back(why, name))
            return await self._finish(RunStatus.ERROR, events=events)
        except WapError:
            return RunStatus.ERROR  # recovery finds it running without a task

    async def _finish(self, status: RunStatus, **more: Any) -> RunStatus:
        """Store the status, with `more` arguments for `RunStore.change_status`."""
        change = partial(self._services.store.change_status, self._run, RunStatus.RUNNING, status)
        await self._services.workspace.offload(lambda: change(position=self._position, response=self._response, **more))
        self._services.notifier.notify(self._run.id)
        return status
