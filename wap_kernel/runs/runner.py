"""Runner: batches of operations as runs, which can be watched, decided on, cancelled and undone, also by another
process and after a restart. What is true of a run stands in the state database; this adds the tasks that execute."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import (
    ApprovalRequired,
    Conflict,
    InvalidArgument,
    PermissionDenied,
    ProviderUnavailable,
    RateLimited,
    WapError,
)
from wap_kernel.model.limits import APPROVAL_SECONDS, MAX_PENDING_OPERATION_CHARACTERS
from wap_kernel.model.operations import Operation, RevertRun
from wap_kernel.model.results import Result
from wap_kernel.model.run import Approval, BatchOptions, Run, RunStatus, Step
from wap_kernel.runs import decisions, recovery
from wap_kernel.runs.approval_requests import ApprovalRequests
from wap_kernel.runs.decisions import Decision
from wap_kernel.runs.event_stream import RunNotifier
from wap_kernel.runs.execution import RunExecution
from wap_kernel.runs.pending_calls import PendingCalls, new_run_id
from wap_kernel.runs.queries import RunQueries
from wap_kernel.runs.services import Admission, EventWriter, ResponseEncoder, RunServices
from wap_kernel.runs.store.outputs import OutputStore
from wap_kernel.runs.store.run_store import NewRun, RunStore
from wap_kernel.state.retention.background import BackgroundSweeps

UPKEEP_SECONDS = 2.0
"""Between two looks at what other processes want, what has expired and who has died."""
REVERT = "revert"
T = TypeVar("T")


def _admit_all(_: Caller, __: Operation) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class Runner(RunQueries):
    """Lives on the event loop that first asks it for something; `close` it before the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        events: EventWriter,
        encoders: Mapping[str, ResponseEncoder],
        admission: Admission = _admit_all,
        changed: Callable[[Run], None] = lambda _: None,
        approval_seconds: float = APPROVAL_SECONDS,
    ) -> None:
        judge = workspace.judge
        super().__init__(
            RunServices(
                workspace=workspace,
                ledger=RunStore(workspace.database, workspace.id, changed),
                outputs=OutputStore(workspace.state_dir),
                hub=RunNotifier(),
                events=events,
                encoders=encoders,
                questions=ApprovalRequests(
                    judge.files_of,
                    judge.may_read,
                    judge.may_name,
                    judge.grant_for,
                    workspace.undo.foresee,
                    workspace.pipeline.foresee,
                    workspace.undo.foresee_revert,
                    workspace.redactor,
                    approval_seconds,
                ),
                admission=admission,
            )
        )
        self._parking = PendingCalls(self._parts)
        self._executions: dict[str, tuple[RunExecution, asyncio.Task[RunStatus]]] = {}
        self._tending: asyncio.Task[None] | None = None
        self._settling: asyncio.Future[None] | None = None
        """What was left from before, by the first who asks."""
        self._is_closing = False
        self._sweeps = BackgroundSweeps(workspace.state_dir, workspace.log)

    @property
    def running(self) -> int:
        """How many runs this process executes."""
        return len(self._executions)

    # -- starting

    async def start(
        self,
        steps: Sequence[Step],
        options: BatchOptions,
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
        not_allowed = {name: error.to_dict() for name, error in (refused or {}).items()}
        new = NewRun(
            id=new_run_id(),
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
            self._sweeps.count_run()
        return run

    def _create(self, new: NewRun) -> tuple[Run, bool]:
        earlier = self._earlier(new)
        if earlier is not None:
            return earlier, False
        if new.caller.token is not None and self._ledger.held(new.caller.token) > MAX_PENDING_OPERATION_CHARACTERS:
            raise RateLimited(
                f"The runs of this agent that have not ended hold over {MAX_PENDING_OPERATION_CHARACTERS} characters.",
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
        execution = RunExecution(self._parts, run, overlay=overlay, approval=approval)
        if self._is_closing:
            _stop(execution)
        task = asyncio.get_running_loop().create_task(execution.go())
        self._executions[run.id] = (execution, task)
        task.add_done_callback(lambda _: self._forget(run.id, task))

    def _forget(self, run_id: str, task: asyncio.Task[RunStatus]) -> None:
        """A run that asked may go on already, with another task."""
        if self._executions.get(run_id, (None, None))[1] is task:
            del self._executions[run_id]

    async def answer(
        self, step: Step, caller: Caller, *, dialect: str, encode: Callable[[Result], T], wait: float = 0.0
    ) -> T | dict[str, Any]:
        """Perform one operation of a dialect that has no runs. What asks becomes a run that waits for a person; it
        keeps the dialect's own answer, which is returned if it comes within `wait` seconds."""
        try:
            return await self.workspace.answer(
                step.operation, caller, encode, CallContext(dialect=dialect, tool=step.tool)
            )
        except ApprovalRequired as error:
            refusal = error
        kept = await self.ask(step, caller, refusal, dialect=dialect, wait=wait)
        if "code" in kept and "error" in kept:
            raise WapError.from_dict(kept)
        return kept

    async def ask(
        self, step: Step, caller: Caller, refusal: ApprovalRequired, *, dialect: str, wait: float = 0.0
    ) -> dict[str, Any]:
        """Have a person decide on what was refused: what the dialect answers then, be it that the call failed. Without
        an answer within `wait` seconds `refusal` is raised, which then names the run."""
        await self._begun()
        try:
            approval = await self.workspace.offload(lambda: self._parking.park(step, caller, dialect, refusal))
        except WapError as error:
            context = CallContext(dialect=dialect, tool=step.tool)
            self.workspace.refused(step.tool, error, caller, step.operation, context)
            raise
        refusal.details = {"rule": refusal.details["rule"], "runId": approval.run, "approvalId": approval.id}
        answer = await self.response(approval.run, wait)
        if answer is None:
            raise refusal
        return answer

    async def response(self, run_id: str, seconds: float) -> dict[str, Any] | None:
        """The answer that the run of a single call keeps, in its dialect's own form; None while there is none."""
        run = await self._until(run_id, seconds, lambda status: status.is_final)
        return None if run.response is None else dict(run.response)

    # -- deciding, ending and undoing

    async def decide(self, run_id: str, decision: Decision, caller: Caller) -> Run:
        """What a person says to the operation that waits. The run goes on in this process."""
        if caller.token is not None:
            raise PermissionDenied("This needs a person.", hint="An agent token cannot decide.")
        waiting = await self.get(run_id, caller)
        run, approval = await self.workspace.offload(
            lambda: decisions.apply_decision(self._parts, waiting, decision, caller)
        )
        if run.status is RunStatus.RUNNING:
            self._execute(run, approval=approval if decision.approved else None)
        self._parts.hub.wake(run.id)
        return run

    async def cancel(self, run_id: str, caller: Caller) -> Run:
        """Stop; what was done stays done (an atomic run is undone)."""
        run = await self.get(run_id, caller)
        if run.status.is_final and run.status is not RunStatus.CANCELLED:
            raise Conflict(f"The run has ended already ({run.status.value}).", runId=run.id)
        if not run.status.is_final:
            await self._on_thread(lambda: self._ledger.request_cancel(run_id))
            await self.workspace.administered("cancelRun", run_id, caller)
        for _ in range(3):  # it may ask just then, and be answered just then
            if run.status.is_final:
                break
            await self._cancel_once(run, caller)
            run = await self.get(run_id, caller)
        self._parts.hub.wake(run_id)
        return run

    async def withdraw(self, run_id: str, caller: Caller) -> None:
        """Cancel it for a call that no longer waits, unless another call has asked for the same."""
        if not self._parking.is_shared(run_id):
            await self.cancel(run_id, caller)

    async def _cancel_once(self, run: Run, caller: Caller) -> None:
        if run.id in self._executions:
            execution, task = self._executions[run.id]
            execution.cancel.request()
            await asyncio.wait([task])
        elif run.status is RunStatus.AWAITING_APPROVAL:
            await self.workspace.offload(lambda: recovery.cancel_pending(self._parts, run, caller))
        else:
            await self.wait(run.id, 2 * UPKEEP_SECONDS)  # whoever executes it looks every now and then

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
        if run.reverts is not None and caller.token is not None:  # what a person agreed to once would happen twice
            raise PermissionDenied("Only a person may revert a revert.", hint="Send the operations again instead.")
        if not run.status.is_final:
            raise Conflict(f"The run has not ended ({run.status.value}).", hint="Cancel it first.", runId=run.id)
        if run.options.dry_run:
            raise InvalidArgument("A dry run changed nothing.", runId=run.id)
        operation = RevertRun(run=run.id, force=force)
        await self.workspace.offload(lambda: self.workspace.undo.check(operation, caller))
        step = Step(REVERT, REVERT, operation)
        return await self.start([step], BatchOptions(), caller, dialect=REVERT, reverts=run.id)

    # -- life

    async def _tend(self) -> None:
        suspects: frozenset[str] = frozenset()
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            try:
                mine = await self._threads.run(self._mine)
                # Twice in a row: one that is just being begun has no task yet either.
                lost = frozenset(run.id for run in mine if run.id not in self._executions)
                for run in mine:
                    if run.cancel_requested and run.id in self._executions:
                        self._executions[run.id][0].cancel.request()
                await self.workspace.offload(partial(recovery.recover_runs, self._parts, suspects & lost))
                suspects = lost
            except Exception as error:  # noqa: BLE001 - it is tried again; whoever asks for something is told
                self.workspace.bug(error, "tending the runs")

    def _mine(self) -> list[Run]:
        owner = self.workspace.lease.id
        return [run for run in self._ledger.with_status(RunStatus.RUNNING) if run.owner == owner]

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
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._sweeps.close)
        await loop.run_in_executor(None, self._threads.close)

    async def _begun(self) -> None:
        """Whoever asks finds everything settled, also who comes while the first still waits, or has gone."""
        if self._parts.hub.is_closed:  # its threads would never come to it
            raise ProviderUnavailable("The workspace is closed.")
        if self._tending is None:
            self._tending = asyncio.get_running_loop().create_task(self._tend())
            self._sweeps.begin()
        if self._settling is None or _has_failed(self._settling):  # then whoever comes tries again
            self._settling = asyncio.ensure_future(self._threads.run(lambda: recovery.recover_runs(self._parts)))
        if not self._settling.done():
            await asyncio.shield(self._settling)


def _has_failed(task: asyncio.Future[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _stop(execution: RunExecution) -> None:
    execution.stopped = ProviderUnavailable("The server was shut down while this run was under way.")
    execution.cancel.request()
