"""Executing one run: its operations in order, on the workspace's threads, an event stored after each.

Reads that follow each other are done in one slice on one thread, and so are writes; a command has a thread to itself.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_json

from wap_kernel.files.interface import Files
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.command import CancelToken
from wap_kernel.model.deadline import OperationCancelled
from wap_kernel.model.errors import TooLarge, WapError
from wap_kernel.model.limits import MAX_RUN_EVENT_BYTES
from wap_kernel.model.operations import Effect
from wap_kernel.model.run import Approval, Run, RunStatus, Step
from wap_kernel.policy.verdict import VerdictKind
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
"""Then the thread is given back: a long batch must not keep others waiting."""


@dataclass
class _SliceEnd:
    """Why a slice ended before its time."""

    asked: Approval | None = None
    failed: bool = False


class _StartFlag:
    """Can be taken once: by the thread that begins a slice, or by whoever gives it up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        return self._lock.acquire(blocking=False)


class RunExecution:
    """One run, for as long as this process executes it."""

    def __init__(
        self, services: RunServices, run: Run, *, approval: Approval | None = None, overlay: Files | None = None
    ) -> None:
        self._services = services
        self._run = run
        self._refused = {name: WapError.from_dict(error) for name, error in run.options.refused.items()}
        self._step_execution = StepExecution(services, run, approval, overlay, self._tell)
        self._position = run.position
        self._events: list[str] = []
        self._problems = 0
        """Of those events."""
        self._answered = 0
        self._stored: list[Future[None]] = []
        self._response: dict[str, Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._cut: Step | None = None
        """The operation that failed when the run was to end: a command that was ended, say."""
        self.cancel = CancelToken()
        self.stopped: WapError | None = None
        """Why it is cancelled, if nobody asked for that."""

    @property
    def token(self) -> str | None:
        """Of the agent that sent the run."""
        return self._run.caller.token

    async def go(self) -> RunStatus:
        """Until it has ended, or asks."""
        try:
            return await self._steps()
        except WapError as error:
            return await self._end_badly(error, self._next_step)
        except Exception as error:  # noqa: BLE001 - a bug; a run must not look as if it went on
            return await self._end_badly(self._services.workspace.bug(error, "a run"), self._next_step)

    @property
    def _next_step(self) -> Step | None:
        return self._run.steps[self._position] if self._position < self._run.count else None

    async def _steps(self) -> RunStatus:
        while self._position < self._run.count and not self.cancel.requested:
            stop = await self._slice()
            if stop.asked is not None and not self.cancel.requested:
                return await self._pause(stop.asked)
            if stop.failed and self._run.options.atomic and not self.cancel.requested:
                return await self._undo(RunStatus.ERROR, "An operation failed")
        if self._position < self._run.count or self._cut is not None:
            return await self._ended_early()
        return await self._finish(RunStatus.COMPLETED)

    async def _ended_early(self) -> RunStatus:
        if self.stopped is not None:
            return await self._end_badly(self.stopped, self._cut)
        self._response = self._response or encode_withdrawal(self._services, self._run, CANCELLED)
        if self._run.options.atomic:
            return await self._undo(RunStatus.CANCELLED, "The run was cancelled")
        return await self._finish(RunStatus.CANCELLED)

    # -- slices

    async def _slice(self) -> _SliceEnd:
        first = self._run.steps[self._position]
        if first.id in self._refused:
            return await self._refuse(first, self._refused[first.id])
        is_admitted = False
        try:
            async with self._services.admission(self._run.caller, first.operation):
                is_admitted = True
                # Whoever is counted is counted operation by operation; reads only cost time.
                is_counted = self._run.caller.token and first.operation.effect is not Effect.READ
                return await self._when_its_turn_comes(first, 1 if is_counted else SLICE_STEPS)
        except WapError as error:
            if is_admitted:  # the state cannot be written: that is no failure of an operation
                raise
            return await self._refuse(first, error)
        finally:
            self._services.notifier.notify(self._run.id)

    async def _when_its_turn_comes(self, first: Step, limit: int) -> _SliceEnd:
        """On a thread. A cancel that comes while all threads are busy does not wait for one."""
        cancelled = asyncio.Event()
        turn = _StartFlag()

        def work() -> _SliceEnd:
            return self._on_thread(limit) if turn.take() else _SliceEnd()

        slicing = asyncio.ensure_future(self._services.workspace.on_thread(type(first.operation), work))
        with self.cancel.on_request(lambda: _call_on_loop(self._loop, cancelled.set)):
            waiting = asyncio.ensure_future(cancelled.wait())
            await asyncio.wait({slicing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if not slicing.done() and turn.take():  # it has not begun, and does not begin any more
            slicing.cancel()
            return _SliceEnd()
        return await slicing

    async def _refuse(self, step: Step, error: WapError) -> _SliceEnd:
        context = CallContext(dialect=self._run.dialect, tool=step.tool, run=self._run.id, step=step.id)
        self._services.workspace.refused(step.tool, error, self._run.caller, step.operation, context)
        return await self._services.workspace.offload(lambda: self._failed(step, error, flush=True))

    def _on_thread(self, limit: int) -> _SliceEnd:
        start, first = self._position, self._run.steps[self._position]
        until = time.monotonic() + SLICE_SECONDS
        following = itertools.islice(self._run.steps, start, start + limit)
        steps = list(itertools.takewhile(lambda step: self._belongs(step, first), following))
        stop = _SliceEnd()
        self._step_execution.look_up_policy()
        while self._position < start + len(steps):
            stop = self._next(steps[self._position - start :])
            # What a change did is stored before the next one begins: its intent waits its turn in the same queue.
            # Reads are stored together, at the end of their slice.
            if first.operation.effect is not Effect.READ:
                self._hand_in()
            if stop.asked or stop.failed or self.cancel.requested or time.monotonic() >= until:
                break
        self._settle()
        return stop

    def _belongs(self, step: Step, first: Step) -> bool:
        if step is first:
            return True
        kinds = (step.operation.effect, first.operation.effect)
        return kinds in ((Effect.READ, Effect.READ), (Effect.WRITE, Effect.WRITE)) and step.id not in self._refused

    def _next(self, steps: Sequence[Step]) -> _SliceEnd:
        """The first of these, or several that can be done together."""
        done = self._step_execution.plainly(steps, self._position, self.cancel)
        if not done:
            return self._step(steps[0])
        stop = _SliceEnd()
        for step, outcome in zip(steps, done, strict=False):
            ended = self._failed(step, outcome) if isinstance(outcome, WapError) else self._done(step, outcome)
            stop.failed = stop.failed or ended.failed
        return stop

    def _step(self, step: Step) -> _SliceEnd:
        try:
            outcome = self._step_execution.perform(step, self._position, self.cancel)
        except WapError as error:
            return self._failed(step, error)
        if isinstance(outcome, StepPause):
            return _SliceEnd(outcome.approval)
        return self._done(step, outcome)

    def _done(self, step: Step, done: StepOutcome) -> _SliceEnd:
        text = to_json(done.event).decode()
        if self._answered + len(text) > MAX_RUN_EVENT_BYTES and step.operation.effect is Effect.READ:
            hint = "Read the rest in another run, or in services."
            return self._failed(
                step, TooLarge(f"The events of a run hold {MAX_RUN_EVENT_BYTES} characters.", hint=hint)
            )
        self._store(text, is_problem=rows.is_problem(done.event))
        if done.result is not None:
            self._response = encode_result(self._services, self._run, step, done.result)
        return _SliceEnd(failed=done.is_failure)

    def _failed(self, step: Step, error: WapError, *, flush: bool = False) -> _SliceEnd:
        event = self._services.events.write_failure(step.id, step.operation, error)
        if self._run.options.dry_run:  # it was not let in, or was cancelled: policy was not even asked
            verdict = {"verdict": VerdictKind.DENY.value} if event["type"] == "policyDenied" else {}
            event = {**event, "simulated": True, **verdict}
        self._store(to_json(event).decode(), is_problem=True)
        self._cut = step if self.cancel.requested else None
        is_given_up = isinstance(error, OperationCancelled) and self.stopped is None
        self._response = (
            encode_withdrawal(self._services, self._run, CANCELLED)
            if is_given_up
            else encode_error(self._services, self._run, error)
        )
        if flush:
            self._settle()
        return _SliceEnd(failed=True)

    # -- storing

    def _store(self, event: str, *, is_problem: bool) -> None:
        self._events.append(event)
        self._problems += is_problem
        self._answered += len(event)
        self._position += 1

    def _hand_in(self) -> None:
        if self._events:
            events, self._events = self._events, []
            problems, self._problems = self._problems, 0
            self._stored.append(
                self._services.store.append(self._run.id, self._position, events, problems, self._response)
            )

    def _settle(self) -> None:
        self._hand_in()
        if self._stored:
            self._services.store.flush()
            stored, self._stored = self._stored, []
            for future in stored:
                wait_for(future)

    def _tell(self) -> None:
        """From the thread of a command: there is output."""
        if self._services.notifier.has_subscribers(self._run.id):
            with suppress(RuntimeError):  # the loop is closed, so nobody watches any more
                self._loop.call_soon_threadsafe(self._services.notifier.notify, self._run.id)

    # -- ends

    async def _pause(self, approval: Approval) -> RunStatus:
        step, reason = self._run.steps[self._position], str(approval.details["reason"])
        event = self._services.events.write_approval(step.id, step.operation, reason, describe_approval(approval))
        return await self._finish(RunStatus.AWAITING_APPROVAL, events=[event], new_approval=approval)

    async def _undo(self, status: RunStatus, why: str) -> RunStatus:
        """All or nothing, so nothing."""
        last = self._run.steps[max(0, self._position - 1)]
        event = await self._services.workspace.offload(lambda: undo_run(self._services, self._run, why, last.id))
        return await self._finish(status, events=[event])

    async def _end_badly(self, error: WapError, under_way: Step | None) -> RunStatus:
        """The state cannot be written, or the workspace is closing: what can still be said is said."""
        said, name = error.text, under_way.id if under_way else ""
        details: dict[str, Any] = {"code": error.code.value, "position": self._position}
        if under_way is not None:
            said = f'{said} It was at operation "{under_way.id}" ({under_way.tool}).'
            details |= {"operationId": under_way.id, "operationType": under_way.tool}
        events = [self._services.events.write_error("system", said, details)]
        self._response = self._response or encode_error(self._services, self._run, error)
        try:
            if self._run.options.atomic:
                why = "The run did not end"
                events.append(
                    await self._services.workspace.offload(lambda: undo_run(self._services, self._run, why, name))
                )
            return await self._finish(RunStatus.ERROR, events=events)
        except WapError:
            return RunStatus.ERROR  # it is found running with nobody to run it, and settled then

    async def _finish(self, status: RunStatus, **more: Any) -> RunStatus:
        change = partial(self._services.store.change_status, self._run, RunStatus.RUNNING, status)
        await self._services.workspace.offload(lambda: change(position=self._position, response=self._response, **more))
        self._services.notifier.notify(self._run.id)
        return status


def _call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    loop.call_soon_threadsafe(function)
