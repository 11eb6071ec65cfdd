"""Runs that are asked for and watched by whoever has hands: what became of the last one, and what an interrupt does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wap_kernel.client import choosing
from wap_kernel.client.answers import RunResult
from wap_kernel.client.backend import Backend, Data, Decision, Place
from wap_kernel.client.watching import Begun, OnSent, watch
from wap_kernel.errors import Conflict, WapError


class Watched:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.last: RunResult | None = None
        """The last run that was begun here, as it was seen last; also when it was interrupted."""
        self._operations: Sequence[Mapping[str, Any]] = ()
        """Of that run: its events do not say what a message said, or which path was denied."""

    @property
    def place(self) -> Place:
        """Where operations happen, and why there."""
        return self._backend.place

    def _named(self, run: str) -> str:
        return choosing.run_named(self._backend, run, None if self.last is None else self.last.run_id)

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
        run_id, approval = choosing.question(self._backend, run, None if self.last is None else self.last.run_id)
        return self._see(
            lambda: self._backend.decide(run_id, approval, decision, reason, remember=remember),
            wait=wait,
            on_sent=on_sent,
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
    ) -> RunResult:
        """Ask for a run of these operations, where they are known, and watch it."""
        begun = Begun(ask)
        self._operations = operations
        try:
            run = self._seen(begun.wait())
            if wait:
                ended = watch(
                    self._backend,
                    run.run_id,
                    approve=approve,
                    wait_for_approval=wait_for_approval,
                    on_sent=on_sent or (lambda _: None),
                )
                run = self._seen(ended)
            return run
        except KeyboardInterrupt:
            if (run_id := begun.run_id()) is not None:
                self._cancel(run_id)
            raise

    def _seen(self, message: Data) -> RunResult:
        self.last = RunResult(message, operations=self._operations)
        return self.last

    def _cancel(self, run_id: str) -> None:
        """Of an interrupted run; a server that does not answer any more must not hide the interrupt."""
        try:
            try:
                self._seen(self._backend.cancel(run_id))
            except Conflict:  # it has ended already
                self._seen(self._backend.get(run_id))
        except WapError:
            pass
