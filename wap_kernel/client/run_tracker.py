"""Start runs, watch them to their end, remember the last one, and cancel what an interrupt leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any, TypedDict

from wap_kernel.client import run_reference
from wap_kernel.client.backend import RUN_STARTED, Backend, Data, Decision, Endpoint, RunUpdate
from wap_kernel.client.background import run_in_thread, wait_for_result
from wap_kernel.client.results import ACTIVE_STATUSES, RunResult, has_written
from wap_kernel.model.errors import Conflict, InvalidArgument, NotFound, PermissionDenied

AWAITING_APPROVAL = "awaiting_approval"
MAX_TRACKED_RUNS = 100
"""Runs whose operations the tracker remembers."""
STOP_SECONDS = 15.0
"""Seconds to wait for an interrupted run; a command has 5 to end by itself."""
MAX_APPROVAL_ATTEMPTS = 3
"""Attempts to approve an operation whose approval is replaced because its files changed meanwhile."""

OnUpdate = Callable[[RunUpdate], object]


class RunAbandoned(Exception):
    """Raised by an `on_update` callback that no longer wants the run, which is then cancelled as by an interrupt."""


class RunOptions(TypedDict, total=False):
    """Options of a run; `WorkspaceClient.run` explains each."""

    atomic: bool
    dry_run: bool
    approve: bool
    wait: bool
    wait_for_approval: float | None
    on_update: OnUpdate | None


class RunTracker:
    """The part of the workspace client that starts and watches runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.last: RunResult | None = None
        """The run that this client started last, as it was last seen; also after an interrupt."""
        self._last_start: RunStart | None = None
        """The start of that run; updates of an earlier run do not replace `last`."""
        self._operations: dict[str, Sequence[Mapping[str, Any]]] = {}
        """Operations by run id: events do not say which operation comes next, or which was never run."""
        self._displayed_approvals: set[str] = set()
        """Approvals that this client has displayed: a person cannot approve an operation unseen."""
        self._named_approvals: set[str] = set()
        """Approvals of agents that a notice has named."""

    @property
    def endpoint(self) -> Endpoint:
        """The server or folder in which operations are executed, and why."""
        return self._backend.endpoint

    def _resolve(self, run: str, *, or_newest: run_reference.Newest | None = None) -> str:
        last = None if self.last is None else self.last.run_id
        return run_reference.resolve_run_id(self._backend, run, last, or_newest=or_newest)

    def _find_pending(self, run: str | None) -> run_reference.PendingApproval:
        last = None if self.last is None else self.last.run_id
        return run_reference.find_pending_approval(self._backend, run, last, self._displayed_approvals)

    def _is_displayed(self, run: str | None, approval: str) -> bool:
        """Return whether a person has seen an approval: this client displayed it, or `run` names it by its own id."""
        return approval in self._displayed_approvals or (run is not None and approval.startswith((run, f"apr_{run}")))

    def _decide(
        self,
        run: str | None,
        decision: Decision,
        wait: bool,
        on_update: OnUpdate | None,
        *,
        reason: str | None = None,
        remember: bool = False,
    ) -> RunResult:
        run_id, approval, total = self._find_pending(run)
        if decision == "approved" and not self._is_displayed(run, approval):
            raise Conflict(
                f"{run_id} waits for an approval that has not been shown here.",
                hint=f"See what it asks for: %wap show {run_id}",
            )
        return self._track(
            lambda: self._backend.decide(run_id, approval, decision, reason, remember=remember),
            wait=wait,
            on_update=on_update,
            total=total,
        )

    def _track(
        self,
        request: Callable[[], Data],
        *,
        wait: bool,
        on_update: OnUpdate | None,
        approve: bool = False,
        wait_for_approval: float | None = 0.0,
        operations: Sequence[Mapping[str, Any]] = (),
        total: int = 0,
    ) -> RunResult:
        """Start a run with `request` and watch it; `total` counts its operations where they are not known."""
        start = self._last_start = RunStart(request)
        notify = on_update or (lambda _: None)
        try:
            message = start.wait()
            self._remember(str(message["runId"]), operations)
            run = self._record(message, start)
            notify(self._started_update(run.run_id, total))
            if wait:
                message = watch_run(
                    self._backend,
                    run.run_id,
                    approve=approve,
                    wait_for_approval=wait_for_approval,
                    on_update=notify,
                )
                run = self._record(message, start)
            return run
        except (KeyboardInterrupt, RunAbandoned):
            start.abandon(lambda run_id: self._cancel(run_id, start))
            raise

    def _started_update(self, run_id: str, total: int) -> RunUpdate:
        """Return the first update, which tells how many operations the run has: its events do not."""
        known = self._operations.get(run_id, ())
        return RunUpdate("", RUN_STARTED, {"runId": run_id, "operations": list(known), "total": len(known) or total})

    def _record(self, message: Data, start: RunStart) -> RunResult:
        run = self._to_result(message)
        if self._last_start is start:
            self.last = run
        return run

    def _to_result(self, message: Data, *, is_detailed: bool = False) -> RunResult:
        """Return the run of an events message, with its operations where they are known.

        The changes are added where the run has written files, whose events do not tell what was there before; with
        `is_detailed`, always.
        """
        if (pending := message.get("pendingApproval")) is not None:
            self._displayed_approvals.add(str(pending["approvalId"]))
        request: Data = {"operations": self._operations.get(str(message["runId"]), ())}
        if message["status"] not in ACTIVE_STATUSES and (is_detailed or has_written(message)):
            request |= {**self._read_changes(str(message["runId"])), "is_detailed": is_detailed}
        return RunResult(message, **request)

    def _read_changes(self, run_id: str) -> Data:
        """Return the changes of a run by path; none where undo is off and nothing is recorded."""
        try:
            found = self._backend.changes(run_id)
        except (InvalidArgument, NotFound, PermissionDenied):
            return {}
        return {
            "changes": {str(change["path"]): change for change in found["changes"]},
            "more_changes": found.get("more", 0),
        }

    def _remember(self, run_id: str, operations: Sequence[Mapping[str, Any]]) -> None:
        if operations:
            self._operations[run_id] = operations
        while len(self._operations) > MAX_TRACKED_RUNS:
            del self._operations[next(iter(self._operations))]

    def _cancel(self, run_id: str, start: RunStart) -> None:
        try:
            message = self._backend.cancel(run_id)
        except Conflict:  # the run has ended already
            message = self._backend.get(run_id)
        self._record(message, start)


class RunStart:
    """The request that starts a run, and its cancellation.

    A caller that is interrupted meanwhile may or may not have started the run, and must know its id to cancel it. So
    both requests are sent from threads, which no interrupt stops, however many arrive.
    """

    def __init__(self, request: Callable[[], Data]) -> None:
        self._request = request
        self._answer: Future[Data] = Future()

    def wait(self) -> Data:
        """Send the request and return the run's events message."""
        return wait_for_result(run_in_thread(self._request, "wap-start", self._answer))

    def abandon(self, cancel: Callable[[str], object]) -> None:
        """Cancel the run as soon as its id is known; return after `STOP_SECONDS` even if that is still going on."""
        self._answer.cancel()  # where the request has not been sent
        wait([run_in_thread(lambda: cancel(str(self._answer.result()["runId"])), "wap-stop")], STOP_SECONDS)


def watch_run(
    backend: Backend, run_id: str, *, approve: bool, wait_for_approval: float | None, on_update: OnUpdate
) -> Data:
    """Return the events message when the run is over, or has awaited approval for `wait_for_approval` seconds."""
    position = ""
    while True:
        position, is_waiting = _follow_until_approval(backend, run_id, position, on_update)
        message = backend.get(run_id)
        if not is_waiting:
            return message
        if message["status"] != AWAITING_APPROVAL:  # decided since
            continue
        if approve:
            _approve(backend, message)
        else:
            position, is_decided = _follow_until_decision(backend, run_id, position, wait_for_approval, on_update)
            if not is_decided:
                return backend.get(run_id)


def _follow_until_approval(backend: Backend, run_id: str, position: str, on_update: OnUpdate) -> tuple[str, bool]:
    """Return the id of the last update, and whether the run awaits approval there."""
    with closing(backend.follow(run_id, position)) as updates:
        for update in updates:
            position = update.id or position
            on_update(update)
            if _status(update) == AWAITING_APPROVAL:
                return position, True
    return position, False


def _follow_until_decision(
    backend: Backend, run_id: str, position: str, seconds: float | None, on_update: OnUpdate
) -> tuple[str, bool]:
    """Return the id of the last update, and whether a person has decided within `seconds`."""
    if seconds == 0:
        return position, False
    with closing(backend.follow(run_id, position, seconds)) as updates:
        for update in updates:
            position = update.id or position
            on_update(update)
            if _status(update) not in (None, AWAITING_APPROVAL):
                return position, True
    return position, False


def _approve(backend: Backend, message: Data) -> None:
    """Approve the pending approval of a run, unless another person decides first."""
    run_id = str(message["runId"])
    for _ in range(MAX_APPROVAL_ATTEMPTS):
        pending = message.get("pendingApproval")
        if pending is None:
            return
        try:
            backend.decide(run_id, str(pending["approvalId"]), "approved", None, remember=False)
            return
        except Conflict:
            message = backend.get(run_id)
    raise Conflict(
        "The files of the operation change faster than it can be approved.",
        hint="Find out which process changes them.",
        runId=run_id,
    )


def _status(update: RunUpdate) -> str | None:
    return str(update.data.get("status")) if update.name == "status" else None
