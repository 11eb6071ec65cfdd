"""A run seen from its beginning to its end, with the questions that it asks on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import closing

from wap_kernel.client.backend import Backend, Data, Sent
from wap_kernel.client.background import answered, started
from wap_kernel.model.errors import Conflict

WAITING = "awaiting_approval"
STOP_SECONDS = 15.0
"""That an interrupted run is waited for; a command is given 5 to end by itself."""
SAME_QUESTION = 3
"""How often a question is approved that was asked again because something has changed meanwhile."""

OnSent = Callable[[Sent], object]


class Stopped(Exception):
    """Raised by who is told what happens: nobody wants the run any longer. It is cancelled, as by an interrupt."""


class Begun:
    """A run that is asked for. Who is interrupted meanwhile has begun it or not, and must know which to cancel it: so
    threads ask and cancel, which no interrupt stops, however many there are."""

    def __init__(self, ask: Callable[[], Data]) -> None:
        self._ask = ask
        self._answer: Future[Data] = Future()

    def wait(self) -> Data:
        """The run's events message."""
        return answered(started(self._ask, "wap-start", self._answer))

    def give_up(self, cancel: Callable[[str], object]) -> None:
        """Cancel the run, as soon as it is known which. Waits for that, but not for ever; it is done all the same."""
        self._answer.cancel()  # where nobody has come to ask for it
        wait([started(lambda: cancel(str(self._answer.result()["runId"])), "wap-stop")], STOP_SECONDS)


def watch(backend: Backend, run_id: str, *, approve: bool, wait_for_approval: float | None, on_sent: OnSent) -> Data:
    """The events message when it is over, or has waited for a person for longer than so many seconds."""
    seen = ""
    while True:
        seen, asks = _until_it_asks(backend, run_id, seen, on_sent)
        message = backend.get(run_id)
        if not asks:
            return message
        if message["status"] != WAITING:  # decided since
            continue
        if approve:
            _approve(backend, message)
        else:
            seen, is_decided = _until_decided(backend, run_id, seen, wait_for_approval, on_sent)
            if not is_decided:
                return backend.get(run_id)


def _until_it_asks(backend: Backend, run_id: str, seen: str, on_sent: OnSent) -> tuple[str, bool]:
    """How far the run was seen, and whether it asks there."""
    with closing(backend.follow(run_id, seen)) as happening:
        for sent in happening:
            seen = sent.id or seen
            on_sent(sent)
            if _status(sent) == WAITING:
                return seen, True
    return seen, False


def _until_decided(
    backend: Backend, run_id: str, seen: str, seconds: float | None, on_sent: OnSent
) -> tuple[str, bool]:
    """How far the run was seen, and whether somebody has decided in time."""
    if seconds == 0:
        return seen, False
    with closing(backend.follow(run_id, seen, seconds)) as happening:
        for sent in happening:
            seen = sent.id or seen
            on_sent(sent)
            if _status(sent) not in (None, WAITING):
                return seen, True
    return seen, False


def _approve(backend: Backend, message: Data) -> None:
    """What the run asks for now. Somebody else may be faster, with whatever they say."""
    run_id = str(message["runId"])
    for _ in range(SAME_QUESTION):
        pending = message.get("pendingApproval")
        if pending is None:
            return
        try:
            backend.decide(run_id, str(pending["approvalId"]), "approved", None, remember=False)
            return
        except Conflict:
            message = backend.get(run_id)
    raise Conflict(
        "What it asks about changes faster than it can be approved.", hint="See what changes it.", runId=run_id
    )


def _status(sent: Sent) -> str | None:
    return str(sent.data.get("status")) if sent.name == "status" else None
