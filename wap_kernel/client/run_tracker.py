"""Runs that are asked for and watched by whoever has hands: what became of the last one, and what an interrupt does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from wap_kernel.client import run_reference
from wap_kernel.client.backend import BEGUN, Backend, Data, Decision, Place, Sent
from wap_kernel.client.results import RunResult
from wap_kernel.client.watching import Begun, OnSent, Stopped, watch
from wap_kernel.model.errors import Conflict

REMEMBERED = 100
"""Runs of which is known what they were to do."""


class RunOptions(TypedDict, total=False):
    """How operations are run; `Hands.run` says what each means."""

    atomic: bool
    dry_run: bool
    approve: bool
    wait: bool
    wait_for_approval: float | None
    on_sent: OnSent | None


class Watched:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.last: RunResult | None = None
        """The last run that was begun here, as it was seen last; also when it was interrupted."""
        self._begun: Begun | None = None
        """That run; what becomes of an earlier one is not `last` any more."""
        self._operations: dict[str, Sequence[Mapping[str, Any]]] = {}
        """Of runs that were begun here: events do not say what comes next, or what was never run."""

        self._questions: set[str] = set()
        """Approvals that were shown here: nobody agrees to what they have not seen."""

    @property
    def place(self) -> Place:
        """Where operations happen, and why there."""
        return self._backend.place

    def _named(self, run: str, *, or_newest: bool = False) -> str:
        last = None if self.last is None else self.last.run_id
        return run_reference.run_named(self._backend, run, last, or_newest=or_newest)

    def _decide(
        self,
        run: str | None,
        decision: Decision,
        wait: bool,
        on_sent: OnSent | None,
        *,
        reason: str | None = None,
        remember: bool = False,
    ) -> RunResult:
        last = None if self.last is None else self.last.run_id
        run_id, approval, total = run_reference.question(self._backend, run, last, self._questions)
        is_named = run is not None and approval.startswith((run, f"apr_{run}"))
        if decision == "approved" and not is_named and approval not in self._questions:
            raise Conflict(
                f"{run_id} asks something that has not been shown here.", hint=f"See what it is: %wap show {run_id}"
            )
        return self._see(
            lambda: self._backend.decide(run_id, approval, decision, reason, remember=remember),
            wait=wait,
            on_sent=on_sent,
            total=total,
        )

    def _see(
        self,
        ask: Callable[[], Data],
        *,
        wait: bool,
        on_sent: OnSent | None,
        approve: bool = False,
        wait_for_approval: float | None = 0.0,
        operations: Sequence[Mapping[str, Any]] = (),
        total: int = 0,
    ) -> RunResult:
        """Ask for a run of these operations, where they are known, or of so many, and watch it."""
        begun = self._begun = Begun(ask)
        told = on_sent or (lambda _: None)
        try:
            message = begun.wait()
            self._remember(str(message["runId"]), operations)
            run = self._seen(message, begun)
            told(self._beginning(run.run_id, total))
            if wait:
                ended = watch(
                    self._backend,
                    run.run_id,
                    approve=approve,
                    wait_for_approval=wait_for_approval,
                    on_sent=told,
                )
                run = self._seen(ended, begun)
            return run
        except (KeyboardInterrupt, Stopped):
            begun.give_up(lambda run_id: self._cancel(run_id, begun))
            raise

    def _beginning(self, run_id: str, total: int) -> Sent:
        """What only whoever asks knows of a run: its events do not say how many there will be."""
        known = self._operations.get(run_id, ())
        return Sent("", BEGUN, {"runId": run_id, "operations": list(known), "total": len(known) or total})

    def _seen(self, message: Data, begun: Begun) -> RunResult:
        run = self._told(message)
        if self._begun is begun:
            self.last = run
        return run

    def _told(self, message: Data) -> RunResult:
        """With what it was to do, where that is known."""
        if (pending := message.get("pendingApproval")) is not None:
            self._questions.add(str(pending["approvalId"]))
        return RunResult(message, operations=self._operations.get(str(message["runId"]), ()))

    def _remember(self, run_id: str, operations: Sequence[Mapping[str, Any]]) -> None:
        if operations:
            self._operations[run_id] = operations
        while len(self._operations) > REMEMBERED:
            del self._operations[next(iter(self._operations))]

    def _cancel(self, run_id: str, begun: Begun) -> None:
        try:
            message = self._backend.cancel(run_id)
        except Conflict:  # it has ended already
            message = self._backend.get(run_id)
        self._seen(message, begun)
