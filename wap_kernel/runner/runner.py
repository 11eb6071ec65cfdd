"""Runner: batches of operations as runs, which can be watched, decided on, cancelled and undone, also by another
process and after a restart. What is true of a run stands in the state database; this adds the tasks that execute."""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

from wap_kernel.caller import Caller
from wap_kernel.commands.outcome import Stream
from wap_kernel.context import Context
from wap_kernel.dialects.agent_spaces_events import AgentSpacesEvents
from wap_kernel.errors import (
    ApprovalRequired,
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ProviderUnavailable,
    RateLimited,
    WapError,
)
from wap_kernel.operations import Operation, Result, RevertRun
from wap_kernel.runner import deciding, recovery
from wap_kernel.runner.deciding import Decision
from wap_kernel.runner.execution import Admission, Events, Execution, Parts, Respond, details_of, refusal_of
from wap_kernel.runs import describing
from wap_kernel.runs.ledger import Event, Ledger, NewRun, asker
from wap_kernel.runs.live import POLL, Cursor, Follower, Hub, Live, follow, follow_all, woken
from wap_kernel.runs.model import Approval, Options, Run, Status, Step
from wap_kernel.runs.outputs import Outputs
from wap_kernel.runs.questions import EXPIRY_SECONDS, Questions
from wap_kernel.threads import Threads
from wap_kernel.workspace import Workspace

STATE_THREADS = 4
TEND_SECONDS = 2.0
"""Between two looks at what other processes want, what has expired and who has died."""
MAX_WAITING = 100
"""Runs of one agent token that may wait for a person: nobody answers more questions than that."""
REVERT = "revert"
T = TypeVar("T")


def _admit_all(_: Caller, __: Operation) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class Runner:
    """Lives on the event loop that first asks it for something; `close` it before the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        events: Events | None = None,
        responses: Mapping[str, Respond] | None = None,
        admission: Admission = _admit_all,
        changed: Callable[[Run], None] = lambda _: None,
        approval_seconds: float = EXPIRY_SECONDS,
    ) -> None:
        self.workspace = workspace
        self._threads = Threads("state", STATE_THREADS)
        self._ledger = Ledger(workspace.database, workspace.id)
        judge = workspace.judge
        self._parts = Parts(
            workspace=workspace,
            ledger=self._ledger,
            outputs=Outputs(workspace.state_dir),
            hub=Hub(),
            events=events or AgentSpacesEvents(partial(datetime.now, timezone.utc)),
            questions=Questions(judge.files_of, judge.grant_for, workspace.undo.foresee, approval_seconds),
            admission=admission,
            responses=responses or {},
            undo=workspace.undo.take_back,
            changed=changed,
        )
        self._executions: dict[str, tuple[Execution, asyncio.Task[Status]]] = {}
        self._tending: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """How many runs this process executes."""
        return len(self._executions)

    # -- starting

    async def start(
        self,
        steps: Sequence[Step],
        options: Options,
        caller: Caller,
        *,
        dialect: str,
        key: str | None = None,
        digest: str | None = None,
        refused: Mapping[str, WapError] | None = None,
        reverts: str | None = None,
    ) -> Run:
        """Store a run and begin it; or answer the one that was started under the same key."""
        new = NewRun(
            id=_new_id(),
            caller=caller,
            dialect=dialect,
            options=options.model_copy(
                update={"refused": {name: refusal_of(error) for name, error in (refused or {}).items()}}
            ),
            steps=tuple(steps),
            owner=self.workspace.lease.id,
            key=key,
            digest=digest,
            reverts=reverts,
        )
        try:
            run = await self._on_thread(lambda: self._create(new))
        except sqlite3.IntegrityError:
            return await self._on_thread(lambda: self._earlier(caller, key or "", digest))
        self._execute(run)
        return run

    def _create(self, new: NewRun, approval: Approval | None = None, events: Sequence[Event] = ()) -> Run:
        if new.caller.token is not None and self._ledger.waiting(new.caller.token) >= MAX_WAITING:
            raise RateLimited(
                f"{MAX_WAITING} runs of this agent wait for a person already.",
                hint="Have them decided, or cancel them.",
                limit="waitingRuns",
                retryAfterMs=60_000,
            )
        return self._ledger.create(new, approval, events)

    def _earlier(self, caller: Caller, key: str, digest: str | None) -> Run:
        found = self._ledger.under_key(caller, key)
        if found is None:
            raise Conflict("The run could not be stored.", hint="Try again.")
        run, first = found
        if first != digest:
            raise Conflict("This Idempotency-Key was used for another request.", hint="Use a new key.", runId=run.id)
        return run

    def _execute(self, run: Run, **more: Any) -> None:
        overlay = self.workspace.judge.new_overlay() if run.options.dry_run else None
        execution = Execution(self._parts, run, overlay=overlay, **more)
        task = asyncio.get_running_loop().create_task(execution.go())
        self._executions[run.id] = (execution, task)
        task.add_done_callback(lambda _: self._forget(run.id, task))
        self._parts.changed(run)

    def _forget(self, run_id: str, task: asyncio.Task[Status]) -> None:
        """A run that asked may go on already, with another task."""
        if self._executions.get(run_id, (None, None))[1] is task:
            del self._executions[run_id]

    # -- single calls

    async def answer(
        self, step: Step, caller: Caller, *, dialect: str, encode: Callable[[Result], T], wait: float = 0.0
    ) -> T | dict[str, Any]:
        """Perform one operation of a dialect that has no runs. What asks becomes a run that waits for a person; it
        keeps the dialect's own answer, which is returned if it comes within `wait` seconds."""
        context = Context(dialect=dialect, tool=step.tool)
        try:
            return await self.workspace.answer(step.operation, caller, encode, context)
        except ApprovalRequired as error:
            refusal = error
        approval = await self._on_thread(lambda: self._park(step, caller, dialect, refusal))
        refusal.details = {"rule": refusal.details["rule"], "runId": approval.run, "approvalId": approval.id}
        run = await self._until(approval.run, wait, lambda run: run.status.is_final)
        if run.response is None:
            raise refusal
        if "code" in run.response and "error" in run.response:
            raise WapError.from_dict(run.response)
        return dict(run.response)

    def _park(self, step: Step, caller: Caller, dialect: str, refusal: ApprovalRequired) -> Approval:
        waiting = self._waiting_for_the_same(step, caller, dialect)
        if waiting is not None:
            return waiting
        identifier = _new_id()
        approval = self._parts.questions.ask(identifier, 0, step, caller, refusal)
        reason = str(approval.shown["reason"])
        event = self._parts.events.approval(step.id, step.operation, reason, details_of(approval))
        new = NewRun(identifier, caller, dialect, Options(), (step,), None, Status.AWAITING_APPROVAL)
        self._parts.changed(self._create(new, approval, [event]))
        return approval

    def _waiting_for_the_same(self, step: Step, caller: Caller, dialect: str) -> Approval | None:
        """An agent that asks again is not asking for something else."""
        for run in self._ledger.with_status(Status.AWAITING_APPROVAL):
            if run.dialect == dialect and asker(run.caller) == asker(caller) and run.count == 1:
                pending = self._ledger.pending(run.id)
                if pending and pending.expires_at > self._parts.questions.clock() and run.steps[0] == step:
                    changed = self._parts.questions.changed(pending, step, caller)
                    return None if changed else pending
        return None

    # -- looking

    async def wait(self, run_id: str, seconds: float) -> Run:
        """Until it no longer runs, or the time is over."""
        return await self._until(run_id, seconds, lambda run: run.status is not Status.RUNNING)

    async def _until(self, run_id: str, seconds: float, enough: Callable[[Run], bool]) -> Run:
        deadline = asyncio.get_running_loop().time() + seconds
        with self._parts.hub.watching(run_id) as event:
            while True:
                run = await self._on_thread(lambda: self._ledger.glance(run_id))
                left = deadline - asyncio.get_running_loop().time()
                if enough(run) or left <= 0:
                    return run
                await woken(event, min(left, POLL))

    async def get(self, run_id: str, caller: Caller) -> Run:
        """An agent sees its own runs only."""
        found = await self._on_thread(lambda: self._ledger.find(run_id))
        if found is None or (caller.token is not None and asker(found.caller) != caller.token):
            raise NotFound(f"There is no run {run_id!r}.", hint="GET wap/runs lists them.")
        run = found
        if run.status is Status.RUNNING and run.owner != self.workspace.lease.id:
            run = await self._on_thread(lambda: recovery.bury_if_dead(self._parts, run))
        return run

    async def page(
        self, caller: Caller, status: Status | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        """Newest first, and where to go on."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidArgument("cursor: It is not one that was answered.", hint="Leave it out to begin anew.")
        before = None if cursor is None else int(cursor)
        found = await self._on_thread(lambda: self._ledger.page(status, before, limit + 1, caller.token))
        return found[:limit], str(found[limit - 1].number) if len(found) > limit else None

    async def encoded(self, run: Run) -> bytes:
        """The events message, as JSON."""
        return await self._on_thread(lambda: describing.message(self._ledger, run))

    async def message(self, run: Run) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self.encoded(run))
        return told

    async def summary(self, run: Run) -> dict[str, Any]:
        return await self._on_thread(lambda: describing.summary(self._ledger, run))

    async def output(
        self, run_id: str, operation_id: str, stream: Stream, offset: int, limit: int, caller: Caller
    ) -> dict[str, Any]:
        """A page of the whole output of a command."""
        run = await self.get(run_id, caller)
        return await self._on_thread(
            lambda: describing.output(self._parts.outputs, run, operation_id, stream, offset, limit)
        )

    async def changes(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """What the run changed, and what a revert would do."""
        run = await self.get(run_id, caller)
        return await self.workspace.offload(lambda: self.workspace.undo.describe(run.id, caller))

    async def follow(self, run_id: str, last_event_id: str | None, caller: Caller) -> AsyncGenerator[Live, None]:
        """What has happened and happens in the run, to its end."""
        cursor = Cursor.parse(last_event_id)
        run = await self.get(run_id, caller)
        follower = Follower(self._ledger, self._parts.outputs, run, cursor)
        async for live in follow(follower, self._parts.hub, run.id, self._threads):
            yield live

    async def follow_all(self, last_event_id: str | None, caller: Caller) -> AsyncGenerator[Live, None]:
        """What happens in all runs from now on, or after the event that was seen last."""
        last = Cursor.parse(last_event_id).entry
        if not last_event_id:
            last = await self._on_thread(self._ledger.last_entry)
        async for live in follow_all(self._ledger, self._parts.hub, last, caller.token, self._threads):
            yield live

    # -- deciding

    async def decide(self, run_id: str, decision: Decision, caller: Caller) -> Run:
        """What a person says to the operation that waits. The run goes on in this process."""
        if caller.token is not None:
            raise PermissionDenied("This needs a person.", hint="An agent token cannot decide.")
        waiting = await self.get(run_id, caller)
        run, approval = await self._on_thread(lambda: deciding.take_over(self._parts, waiting, decision, caller))
        if run.status is Status.RUNNING:
            self._execute(run, approval=approval if decision.approved else None)
        self._parts.hub.wake(run.id)
        return run

    # -- ending and undoing

    async def cancel(self, run_id: str, caller: Caller) -> Run:
        """Stop; what was done stays done (an atomic run is undone)."""
        run = await self.get(run_id, caller)
        if run.status is Status.CANCELLED:
            return run
        if run.status.is_final:
            raise Conflict(f"The run has ended already ({run.status.value}).", runId=run.id)
        if run.id in self._executions:
            execution, task = self._executions[run.id]
            execution.cancel.request()
            await asyncio.wait([task])
            run = await self.get(run_id, caller)  # it may have asked just then
        if run.status is Status.AWAITING_APPROVAL:
            await self._on_thread(lambda: recovery.cancel_waiting(self._parts, run, caller))
        elif run.status is Status.RUNNING:
            await self._on_thread(lambda: self._ledger.request_cancel(run_id))
            await self.wait(run.id, 2 * TEND_SECONDS)
        self._parts.hub.wake(run.id)
        return await self.get(run_id, caller)

    async def revert(self, run_id: str, caller: Caller, *, force: bool = False) -> Run:
        """Undo what a run changed, as a run of its own, which can be reverted too."""
        run = await self.get(run_id, caller)
        if not run.status.is_final:
            raise Conflict(f"The run has not ended ({run.status.value}).", hint="Cancel it first.", runId=run.id)
        if run.options.dry_run:
            raise InvalidArgument("A dry run changed nothing.", runId=run.id)
        operation = RevertRun(run=run.id, force=force)
        await self.workspace.offload(lambda: self.workspace.undo.check(operation, caller))
        step = Step(REVERT, REVERT, operation)
        return await self.start([step], Options(), caller, dialect=REVERT, reverts=run.id)

    # -- life

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                for run_id in await self._threads.run(lambda: recovery.tend(self._parts)):
                    if run_id in self._executions:
                        self._executions[run_id][0].cancel.request()
            except WapError:
                continue  # the state cannot be read now; whoever asks for something will be told

    async def close(self) -> None:
        """End what runs; each such run is marked as interrupted."""
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])
        running = list(self._executions.values())
        for execution, _ in running:
            execution.stopped = ProviderUnavailable("The server was shut down while this run was under way.")
            execution.cancel.request()
        if running:
            await asyncio.wait([task for _, task in running])
        self._parts.hub.close()
        await asyncio.get_running_loop().run_in_executor(None, self._threads.close)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        if self._parts.hub.is_closed:  # its threads would never come to it
            raise ProviderUnavailable("The workspace is closed.")
        if self._tending is None:  # the first to ask finds everything settled
            self._tending = asyncio.get_running_loop().create_task(self._tend())
            await self._threads.run(lambda: recovery.settle(self._parts))
        return await self._threads.run(work)


def _new_id() -> str:
    return f"run_{secrets.token_hex(8)}"
