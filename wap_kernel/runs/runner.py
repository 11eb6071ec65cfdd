"""Run batches of operations: start, decide, cancel and revert runs, also those of another process or an earlier one.

The state database holds everything about a run; the Runner adds the tasks that execute runs in this process.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import (
    ApprovalRequired,
    Conflict,
    InvalidArgument,
    PermissionDenied,
    ProviderUnavailable,
    WapError,
)
from wap_kernel.model.git.operations import GitChange, GitTransfer
from wap_kernel.model.hints import tell_user
from wap_kernel.model.limits import APPROVAL_SECONDS
from wap_kernel.model.operations import ApplyChanges, Effect, RevertRun, RunCommand
from wap_kernel.model.paths import parse_path
from wap_kernel.model.results import Result
from wap_kernel.model.run import Approval, BatchOptions, Run, RunStatus, Step
from wap_kernel.runs import decisions, recovery
from wap_kernel.runs.approval_requests import ApprovalRequests
from wap_kernel.runs.call_run import CallRun
from wap_kernel.runs.decisions import Decision
from wap_kernel.runs.event_stream import RunNotifier
from wap_kernel.runs.execution import RunExecution
from wap_kernel.runs.pending_calls import PendingCalls
from wap_kernel.runs.queries import RunQueries
from wap_kernel.runs.run_creation import check_revert, create_run, new_run_id
from wap_kernel.runs.services import Admission, EventWriter, ResponseEncoder, RunServices, admit_all
from wap_kernel.runs.store.outputs import OutputStore
from wap_kernel.runs.store.records import NewRun
from wap_kernel.runs.store.run_store import RunStore
from wap_kernel.state.retention.schedule import BackgroundSweeper

UPKEEP_SECONDS = 2.0
"""Seconds between two rounds of upkeep: cancels by other processes, expired approvals, runs of dead processes."""
REVOKED_GRACE_SECONDS = 0.25
"""Seconds that the commands of a revoked agent token may take to end."""
LAYER_ROUNDS = 300
"""Rounds of upkeep between two sweeps of the layers."""
REVERT = "revert"
APPLY = "apply"
T = TypeVar("T")


class Runner(RunQueries):
    """The runs of one workspace, on the event loop of the first call; `close` it before the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        events: EventWriter,
        encoders: Mapping[str, ResponseEncoder],
        admission: Admission = admit_all,
        changed: Callable[[Run], None] = lambda _: None,
        approval_seconds: float = APPROVAL_SECONDS,
    ) -> None:
        super().__init__(
            RunServices(
                workspace=workspace,
                store=RunStore(workspace.database, workspace.id, changed),
                outputs=OutputStore(workspace.state_dir),
                notifier=RunNotifier(),
                events=events,
                encoders=encoders,
                approval_requests=ApprovalRequests.for_workspace(workspace, approval_seconds),
                admission=admission,
            )
        )
        self._pending_calls = PendingCalls(self._services)
        self._executions: dict[str, tuple[RunExecution, asyncio.Task[RunStatus]]] = {}
        self._upkeep: asyncio.Task[None] | None = None
        self._recovery: asyncio.Future[None] | None = None
        """Recovery of the runs that an earlier process left, begun by the first call."""
        self._is_closing = False
        self.waiting = 0
        """Runs of the workspace that wait for a person, as the last round of upkeep found them."""
        self._sweeps = BackgroundSweeper(workspace.state_dir, workspace.log)

    @property
    def running(self) -> int:
        """Return how many runs this process executes."""
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
        """Store a run and begin it, or return the run that was started under the same key."""
        self._check_options(steps, options)
        not_allowed = {name: error.to_dict() for name, error in (refused or {}).items()}
        is_on_layer = self.workspace.layered is not None and (options.atomic or options.dry_run)
        new = NewRun(
            id=new_run_id(),
            caller=caller,
            dialect=dialect,
            options=options.model_copy(update={"refused": not_allowed, "on_layer": is_on_layer}),
            steps=tuple(steps),
            owner=self.workspace.lease.id,
            key=key,
            digest=digest,
            reverts=reverts,
        )
        run, is_new = await self._on_thread(lambda: create_run(self._store, new))
        if is_new:
            self._execute(run)
            self._sweeps.count_run()
        return run

    def _check_options(self, steps: Sequence[Step], options: BatchOptions) -> None:
        """Raise where the workspace cannot keep what the options promise."""
        if self.workspace.layered is not None or not (options.atomic or options.dry_run):
            shared = [step for step in steps if getattr(step.operation, "isolation", "layer") == "shared"]
            if shared and (options.atomic or options.dry_run):
                raise InvalidArgument(
                    "A command with isolation shared writes into the workspace directly, which an atomic or dry run "
                    f"cannot take back: {shared[0].id!r}",
                    hint='Leave out isolation: "shared", or send that command in a run of its own.',
                )
            return
        if options.atomic and not self.workspace.undo.is_on:
            raise InvalidArgument("atomic: Undo is switched off here.", hint=tell_user("See WapExtension.undo."))
        command = next(
            (step for step in steps if isinstance(step.operation, RunCommand | GitChange | GitTransfer)), None
        )
        if command is not None:
            raise InvalidArgument(
                "A command of an atomic or dry run needs a layer, and commands write into the workspace directly here: "
                f"{command.id!r}",
                hint="Send file operations only. " + tell_user("`wap doctor` tells how to get a provider with layers."),
            )

    def _execute(self, run: Run, *, approval: Approval | None = None) -> None:
        is_overlaid = run.options.dry_run and not run.options.on_layer
        overlay = self.workspace.judge.new_overlay() if is_overlaid else None
        execution = RunExecution(self._services, run, overlay=overlay, approval=approval)
        if self._is_closing:
            _stop(execution)
        task = asyncio.get_running_loop().create_task(execution.execute())
        self._executions[run.id] = (execution, task)
        task.add_done_callback(lambda _: self._forget(run.id, task))

    def _forget(self, run_id: str, task: asyncio.Task[RunStatus]) -> None:
        # After an approval the run may go on already, with another task.
        if self._executions.get(run_id, (None, None))[1] is task:
            del self._executions[run_id]

    async def answer_call(
        self, step: Step, caller: Caller, *, dialect: str, encode: Callable[[Result], T], wait: float = 0.0
    ) -> T | dict[str, Any]:
        """Perform a single call of a dialect that has no runs, and return its response.

        A call that needs approval becomes a run that waits for a person and stores the response in the dialect's own
        form. If it comes within `wait` seconds it is returned, else ApprovalRequired is raised.
        """
        try:
            return await self.workspace.answer(step.operation, caller, encode, self.new_call(step, caller, dialect))
        except ApprovalRequired as error:
            refusal = error
        response = await self.request_approval(step, caller, refusal, dialect=dialect, wait=wait)
        if "code" in response and "error" in response:
            raise WapError.from_dict(response)
        return response

    def new_call(self, step: Step, caller: Caller, dialect: str) -> CallContext:
        """Return the context of a single call; one that changes something becomes a run, which can be reverted."""
        if step.operation.effect is Effect.READ:
            return CallContext(dialect=dialect, tool=step.tool)
        return CallRun(self._services, step, caller, dialect).context

    async def request_approval(
        self, step: Step, caller: Caller, refusal: ApprovalRequired, *, dialect: str, wait: float = 0.0
    ) -> dict[str, Any]:
        """Have a person decide on a call that was refused, and return its response, which may be an error.

        Without a decision within `wait` seconds `refusal` is raised, which then names the run.
        """
        await self._ensure_started()
        request = partial(self._pending_calls.request_approval, step, caller, dialect, refusal)
        try:
            approval = await self.workspace.offload(request)
        except WapError as error:
            context = CallContext(dialect=dialect, tool=step.tool)
            self.workspace.audit_refusal(step.tool, error, caller, step.operation, context)
            raise
        refusal.details = {"rule": refusal.details["rule"], "runId": approval.run, "approvalId": approval.id}
        response = await self.wait_for_response(approval.run, wait)
        if response is None:
            raise refusal
        return response

    async def wait_for_response(self, run_id: str, seconds: float) -> dict[str, Any] | None:
        """Wait for the response that the run of a single call stores; return None if the time is over before."""
        run = await self._wait_for_status(run_id, seconds, lambda status: status.is_final)
        return None if run.response is None else dict(run.response)

    # -- deciding, ending and undoing

    async def decide(self, run_id: str, decision: Decision, caller: Caller) -> Run:
        """Apply a person's decision on a pending approval; the run goes on in this process."""
        if caller.token is not None:
            raise PermissionDenied("Only a person may decide on an approval.", hint="An agent token cannot decide.")
        waiting = await self.get(run_id, caller)
        run, approval = await self.workspace.offload(
            lambda: decisions.apply_decision(self._services, waiting, decision, caller)
        )
        if run.status is RunStatus.RUNNING:
            self._execute(run, approval=approval if decision.approved else None)
        self._services.notifier.notify(run.id)
        return run

    async def cancel(self, run_id: str, caller: Caller) -> Run:
        """Cancel a run; its changes stay, and an atomic run, which applies its changes at the end, makes none."""
        run = await self.get(run_id, caller)
        if run.status.is_final and run.status is not RunStatus.CANCELLED:
            raise Conflict(f"The run has ended already ({run.status.value}).", runId=run.id)
        if not run.status.is_final:
            await self._on_thread(lambda: self._store.request_cancel(run_id))
            await self.workspace.audit_administration("cancelRun", run_id, caller)
        for _ in range(3):  # the run may pause for approval, and a person decide, in the meantime
            if run.status.is_final:
                break
            await self._cancel_once(run, caller)
            run = await self.get(run_id, caller)
        self._services.notifier.notify(run_id)
        return run

    async def withdraw(self, run_id: str, caller: Caller) -> None:
        """Cancel the run of a call that waits no longer, unless another call waits for the same run."""
        if not self._pending_calls.is_shared(run_id):
            await self.cancel(run_id, caller)

    async def _cancel_once(self, run: Run, caller: Caller) -> None:
        if run.id in self._executions:
            execution, task = self._executions[run.id]
            execution.cancel.request()
            await asyncio.wait([task])
        elif run.status is RunStatus.AWAITING_APPROVAL:
            await self.workspace.offload(lambda: recovery.cancel_pending(self._services, run, caller))
        else:
            await self.wait(run.id, 2 * UPKEEP_SECONDS)  # the process that executes it polls for cancels

    async def list_tokens_with_work(self) -> set[str]:
        """Return the ids of the agent tokens whose calls and runs this process performs, or whose runs wait."""
        waiting = await self._on_thread(self._store.list_waiting_senders)
        executed = {execution.token for execution, _ in self._executions.values()} - {None}
        return {*waiting, *self.workspace.tokens_under_way, *cast("set[str]", executed)}

    async def end_work_of(self, token: str) -> None:
        """Cancel the calls and runs of a revoked agent token in this process, and its runs that wait anywhere."""
        self.workspace.end_calls_of(token, REVOKED_GRACE_SECONDS)
        for execution, _ in self._executions.values():
            if execution.token == token:
                execution.cancel.request(REVOKED_GRACE_SECONDS)
        for run in await self._on_thread(lambda: self._store.with_status(RunStatus.AWAITING_APPROVAL, token)):
            await self.workspace.offload(partial(recovery.cancel_pending, self._services, run, Caller()))
            self._services.notifier.notify(run.id)

    async def revert(self, run_id: str, caller: Caller, *, force: bool = False) -> Run:
        """Start a run that undoes what a run changed; it can be reverted too."""
        run = await self.get(run_id, caller)
        check_revert(run, caller, force=force)
        operation = RevertRun(run=run.id, force=force)
        await self.workspace.offload(lambda: self.workspace.undo.check(operation, caller))
        step = Step(REVERT, REVERT, operation)
        return await self.start([step], BatchOptions(), caller, dialect=REVERT, reverts=run.id)

    async def apply(self, run_id: str, paths: Sequence[str] | None, caller: Caller) -> Run:
        """Start a run that applies what a run left in its layer, over what is in the workspace now."""
        if caller.token is not None:
            raise PermissionDenied("Only a person may apply what was left.", hint="Applying replaces later changes.")
        run = await self.get(run_id, caller)
        if not run.status.is_final:
            raise Conflict(f"The run has not ended ({run.status.value}).", hint="Cancel it first.", runId=run.id)
        names = self.workspace.names_of_root
        chosen = None if paths is None else tuple(parse_path(path, names) for path in paths)
        operation = ApplyChanges(run=run.id, paths=chosen)
        return await self.start([Step(APPLY, APPLY, operation)], BatchOptions(), caller, dialect=APPLY)

    # -- upkeep

    async def _maintain_runs(self) -> None:
        suspects: frozenset[str] = frozenset()
        for number in itertools.count():
            await asyncio.sleep(UPKEEP_SECONDS)
            try:
                if number % LAYER_ROUNDS == 0:
                    await self.workspace.offload(lambda: recovery.sweep_layers(self._services))
                own = await self._threads.run(self._own_running_runs)
                # Lost in two rounds: a run that is just being started has no task yet either.
                executed = {*self._executions, *self._services.active_calls}
                lost = frozenset(run.id for run in own if run.id not in executed)
                for run in own:
                    if run.cancel_requested and run.id in self._executions:
                        self._executions[run.id][0].cancel.request()
                await self.workspace.offload(partial(recovery.recover_runs, self._services, suspects & lost))
                suspects = lost
                self.waiting = await self._threads.run(self._store.count_pending_runs)
            except Exception as error:  # noqa: BLE001 - the next round tries again; a call gets its own error
                self.workspace.bug(error, "the upkeep of runs")

    def _own_running_runs(self) -> list[Run]:
        owner = self.workspace.lease.id
        return [run for run in self._store.with_status(RunStatus.RUNNING) if run.owner == owner]

    async def close(self) -> None:
        """End the runs that this process executes, each with an error that says so."""
        self._is_closing = True
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait([self._upkeep])
        while self._executions:
            running = list(self._executions.values())
            for execution, _ in running:
                _stop(execution)
            await asyncio.wait([task for _, task in running])
            await asyncio.sleep(0)  # runs their done callbacks, which forget them
        self._services.notifier.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._sweeps.close)
        await loop.run_in_executor(None, self._threads.close)

    async def _ensure_started(self) -> None:
        """Start the upkeep, and wait for the recovery; a call that is cancelled does not cancel it for the others."""
        if self._services.notifier.is_closed:  # the threads are closed as well
            raise ProviderUnavailable("The workspace is closed.")
        if self._upkeep is None:
            self._upkeep = asyncio.get_running_loop().create_task(self._maintain_runs())
            self._sweeps.start()
        if self._recovery is None or _has_failed(self._recovery):  # after a failure the next call tries again
            self._recovery = asyncio.ensure_future(self._threads.run(lambda: recovery.recover_runs(self._services)))
        if not self._recovery.done():
            await asyncio.shield(self._recovery)


def _has_failed(task: asyncio.Future[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _stop(execution: RunExecution) -> None:
    execution.stopped = ProviderUnavailable("The server was shut down while this run was under way.")
    execution.cancel.request()
