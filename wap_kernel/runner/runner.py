"""Runner: batches of operations as runs, which can be watched, decided on, cancelled and undone, also by another
process and after a restart. What is true of a run stands in the state database; this adds the tasks that execute."""

from __future__ import annotations

import asyncio
import json
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
from wap_kernel.runner import deciding, parking, recovery
from wap_kernel.runner.deciding import Decision
from wap_kernel.runner.execution import Execution
from wap_kernel.runner.parts import Admission, Events, Parts, Respond, refusal_of
from wap_kernel.runs import describing
from wap_kernel.runs.ledger import Ledger, NewRun, asker
from wap_kernel.runs.live import POLL, Cursor, Follower, Hub, Live, follow, follow_all, woken
from wap_kernel.runs.model import Approval, Options, Run, Status, Step
from wap_kernel.runs.outputs import Outputs
from wap_kernel.runs.questions import EXPIRY_SECONDS, Questions
from wap_kernel.threads import Threads
from wap_kernel.workspace import Workspace

STATE_THREADS = 4
TEND_SECONDS = 2.0
"""Between two looks at what other processes want, what has expired and who has died."""
MAX_HELD = 64 * 1024 * 1024
"""Characters of operations of one agent's runs that have not ended: they are kept on disk."""
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
        self._ledger = Ledger(workspace.database, workspace.id, changed)
        judge = workspace.judge
        self._parts = Parts(
            workspace=workspace,
            ledger=self._ledger,
            outputs=Outputs(workspace.state_dir),
            hub=Hub(),
            events=events or AgentSpacesEvents(partial(datetime.now, timezone.utc)),
            questions=Questions(
                judge.files_of, judge.may_read, judge.grant_for, workspace.undo.foresee, approval_seconds
            ),
            admission=admission,
            responses=responses or {},
        )
        self._executions: dict[str, tuple[Execution, asyncio.Task[Status]]] = {}
        self._tending: asyncio.Task[None] | None = None
        self._is_closing = False

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
        if options.atomic and not self.workspace.undo.is_on:
            raise InvalidArgument("atomic: Undo is switched off here.", hint="See WapExtension.undo.")
        not_allowed = {name: refusal_of(error) for name, error in (refused or {}).items()}
        new = NewRun(
            id=parking.new_id(),
            caller=caller,
            dialect=dialect,
            options=options.model_copy(update={"refused": not_allowed}),
            steps=tuple(steps),
            owner=self.workspace.lease.id,
            key=key,
            digest=digest,
            reverts=reverts,
        )
        run, is_new = await self._on_thread(lambda: self._create(new))
        if is_new:
            self._execute(run)
        return run

    def _create(self, new: NewRun) -> tuple[Run, bool]:
        earlier = self._earlier(new)
        if earlier is not None:
            return earlier, False
        if new.caller.token is not None and self._ledger.held(new.caller.token) > MAX_HELD:
            raise RateLimited(
                f"The runs of this agent that have not ended hold over {MAX_HELD} characters.",
                hint="Wait until some have ended, or cancel them.",
                limit="heldBytes",
                retryAfterMs=10_000,
            )
        try:
            return self._ledger.create(new), True
        except sqlite3.IntegrityError:  # somebody was faster with the same key
            found = self._earlier(new)
            if found is None:
                raise Conflict("The run could not be stored.", hint="Try again.") from None
            return found, False

    def _earlier(self, new: NewRun) -> Run | None:
        found = None if new.key is None else self._ledger.under_key(new.caller, new.key)
        if found is None:
            return None
        run, digest = found
        if digest != new.digest:
            raise Conflict("This Idempotency-Key was used for another request.", hint="Use a new key.", runId=run.id)
        return run

    def _execute(self, run: Run, *, approval: Approval | None = None) -> None:
        overlay = self.workspace.judge.new_overlay() if run.options.dry_run else None
        execution = Execution(self._parts, run, overlay=overlay, approval=approval)
        if self._is_closing:
            _stop(execution)
        task = asyncio.get_running_loop().create_task(execution.go())
        self._executions[run.id] = (execution, task)
        task.add_done_callback(lambda _: self._forget(run.id, task))

    def _forget(self, run_id: str, task: asyncio.Task[Status]) -> None:
        """A run that asked may go on already, with another task."""
        if self._executions.get(run_id, (None, None))[1] is task:
            del self._executions[run_id]

    async def answer(
        self, step: Step, caller: Caller, *, dialect: str, encode: Callable[[Result], T], wait: float = 0.0
    ) -> T | dict[str, Any]:
        """Perform one operation of a dialect that has no runs. What asks becomes a run that waits for a person; it
        keeps the dialect's own answer, which is returned if it comes within `wait` seconds."""
        try:
            return await self.workspace.answer(step.operation, caller, encode, Context(dialect=dialect, tool=step.tool))
        except ApprovalRequired as error:
            refusal = error
        await self._begun()
        approval = await self.workspace.offload(lambda: parking.park(self._parts, step, caller, dialect, refusal))
        refusal.details = {"rule": refusal.details["rule"], "runId": approval.run, "approvalId": approval.id}
        run = await self._until(approval.run, wait, lambda run: run.status.is_final)
        if run.response is None:
            raise refusal
        if "code" in run.response and "error" in run.response:
            raise WapError.from_dict(run.response)
        return dict(run.response)

    # -- looking

    async def wait(self, run_id: str, seconds: float) -> Run:
        """Until it no longer runs, or the time is over. A glance, without its operations."""
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
        return await self._on_thread(lambda: self._get(run_id, caller))

    def _get(self, run_id: str, caller: Caller) -> Run:
        run = self._ledger.find(run_id)
        if run is None or (caller.token is not None and asker(run.caller) != caller.token):
            raise NotFound(f"There is no run {run_id!r}.", hint="GET wap/runs lists them.")
        if run.status is Status.RUNNING and run.owner != self.workspace.lease.id:
            run = recovery.bury_if_dead(self._parts, run)
        return run

    async def page(
        self, caller: Caller, status: Status | None, limit: int, cursor: str | None
    ) -> tuple[list[Run], str | None]:
        """Glances, newest first, and where to go on."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidArgument("cursor: It is not one that was answered.", hint="Leave it out to begin anew.")
        before = None if cursor is None else int(cursor)
        found = await self._on_thread(lambda: self._ledger.page(status, before, limit + 1, caller.token))
        return found[:limit], str(found[limit - 1].number) if len(found) > limit else None

    async def encoded(self, run: Run, caller: Caller) -> bytes:
        """The events message for this caller, as JSON."""
        is_person = caller.token is None
        return await self._on_thread(lambda: describing.message(self._ledger, run, is_person=is_person))

    async def message(self, run: Run, caller: Caller) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self.encoded(run, caller))
        return told

    async def summaries(self, runs: Sequence[Run], caller: Caller) -> list[dict[str, Any]]:
        """As in a list."""
        is_person = caller.token is None
        summary = partial(describing.summary, self._ledger, is_person=is_person)
        return await self._on_thread(lambda: [summary(run) for run in runs])

    async def output(
        self, run_id: str, operation_id: str, stream: Stream, offset: int, limit: int, caller: Caller
    ) -> dict[str, Any]:
        """A page of the whole output of a command."""

        def read() -> dict[str, Any]:
            run = self._get(run_id, caller)
            return describing.output(self._parts.outputs, run, operation_id, stream, offset, limit)

        return await self._on_thread(read)

    async def changes(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """What the run changed, and what a revert would do."""
        run = await self.get(run_id, caller)
        readable = partial(_swapped, self.workspace.judge.may_read, caller)
        return await self.workspace.offload(lambda: self.workspace.undo.describe(run.id, readable))

    async def follow(self, run_id: str, last_event_id: str | None, caller: Caller) -> AsyncGenerator[Live, None]:
        """What has happened and happens in the run, to its end."""
        cursor = Cursor.parse(last_event_id)

        def begin() -> Follower:
            return Follower(self._ledger, self._parts.outputs, self._get(run_id, caller), cursor)

        follower = await self._on_thread(begin)
        async for live in follow(follower, self._parts.hub, run_id, self._threads):
            yield live

    async def follow_all(self, last_event_id: str | None, caller: Caller) -> AsyncGenerator[Live, None]:
        """What happens in all runs from now on, or after the event that was seen last."""
        last = Cursor.parse(last_event_id).entry
        if not last_event_id:
            last = await self._on_thread(self._ledger.last_entry)
        async for live in follow_all(self._ledger, self._parts.hub, last, caller.token, self._threads):
            yield live

    # -- deciding, ending and undoing

    async def decide(self, run_id: str, decision: Decision, caller: Caller) -> Run:
        """What a person says to the operation that waits. The run goes on in this process."""
        if caller.token is not None:
            raise PermissionDenied("This needs a person.", hint="An agent token cannot decide.")
        waiting = await self.get(run_id, caller)
        run, approval = await self.workspace.offload(lambda: deciding.take_over(self._parts, waiting, decision, caller))
        if run.status is Status.RUNNING:
            self._execute(run, approval=approval if decision.approved else None)
        self._parts.hub.wake(run.id)
        return run

    async def cancel(self, run_id: str, caller: Caller) -> Run:
        """Stop; what was done stays done (an atomic run is undone)."""
        run = await self.get(run_id, caller)
        if run.status.is_final and run.status is not Status.CANCELLED:
            raise Conflict(f"The run has ended already ({run.status.value}).", runId=run.id)
        if not run.status.is_final:
            await self._on_thread(lambda: self._ledger.request_cancel(run_id))
        for _ in range(3):  # it may ask just then, and be answered just then
            if run.status.is_final:
                break
            await self._cancel_once(run, caller)
            run = await self.get(run_id, caller)
        self._parts.hub.wake(run_id)
        return run

    async def _cancel_once(self, run: Run, caller: Caller) -> None:
        if run.id in self._executions:
            execution, task = self._executions[run.id]
            execution.cancel.request()
            await asyncio.wait([task])
        elif run.status is Status.AWAITING_APPROVAL:
            await self.workspace.offload(lambda: recovery.cancel_waiting(self._parts, run, caller))
        else:
            await self.wait(run.id, 2 * TEND_SECONDS)  # whoever executes it looks every now and then

    def cancel_all_of(self, token: str) -> None:
        """What an agent's token has begun ends with the token."""
        for execution, _ in self._executions.values():
            if execution.token == token:
                execution.cancel.request()

    async def revert(self, run_id: str, caller: Caller, *, force: bool = False) -> Run:
        """Undo what a run changed, as a run of its own, which can be reverted too."""
        run = await self.get(run_id, caller)
        if force and caller.token is not None:
            raise PermissionDenied("Only a person may force a revert.", hint="It would overwrite later changes.")
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
        suspects: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                mine = await self._threads.run(self._mine)
                # Twice in a row: one that is just being begun has no task yet either.
                lost = frozenset(run.id for run in mine if run.id not in self._executions)
                for run in mine:
                    if run.cancel_requested and run.id in self._executions:
                        self._executions[run.id][0].cancel.request()
                await self.workspace.offload(partial(recovery.settle, self._parts, suspects & lost))
                suspects = lost
            except Exception as error:  # noqa: BLE001 - it is tried again; whoever asks for something is told
                self.workspace.bug(error, "tending the runs")

    def _mine(self) -> list[Run]:
        owner = self.workspace.lease.id
        return [run for run in self._ledger.with_status(Status.RUNNING) if run.owner == owner]

    async def close(self) -> None:
        """End what runs; each such run is marked as interrupted."""
        self._is_closing = True
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])
        while self._executions:
            running = list(self._executions.values())
            for execution, _ in running:
                _stop(execution)
            await asyncio.wait([task for _, task in running])
            await asyncio.sleep(0)  # lets them be forgotten
        self._parts.hub.close()
        await asyncio.get_running_loop().run_in_executor(None, self._threads.close)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        await self._begun()
        return await self._threads.run(work)

    async def _begun(self) -> None:
        """The first to ask finds everything settled."""
        if self._parts.hub.is_closed:  # its threads would never come to it
            raise ProviderUnavailable("The workspace is closed.")
        if self._tending is None:
            self._tending = asyncio.get_running_loop().create_task(self._tend())
            await self._threads.run(lambda: recovery.settle(self._parts))


def _stop(execution: Execution) -> None:
    execution.stopped = ProviderUnavailable("The server was shut down while this run was under way.")
    execution.cancel.request()


def _swapped(may_read: Callable[[str, Caller], bool], caller: Caller, path: str) -> bool:
    return may_read(path, caller)
