"""What an interrupt does to a run, wherever it strikes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from wap_kernel.client import watching
from wap_kernel.client.backend import Backend, Sent
from wap_kernel.client.workspace_client import Hands
from wap_kernel.model.errors import WapError

ASKS = "rm -rf nothing"
LONG = "echo begun; sleep 1000"


@pytest.fixture(autouse=True)
def nothing_waits(backend: Backend) -> Iterator[None]:
    yield
    for run in backend.runs("awaiting_approval", 100)["runs"]:
        backend.cancel(run["runId"])


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _interrupt_once_it_waits() -> None:
    """For what is told next: deep in a socket, or for the thread of the engine."""
    waited_for = threading.get_ident()

    def look() -> None:
        while sys._current_frames()[waited_for].f_code.co_name not in ("readinto", "wait"):
            time.sleep(0.001)
        _interrupt()

    threading.Thread(target=look).start()


def test_an_interrupt_cancels_the_run(hands: Hands) -> None:
    def begun(sent: Sent) -> None:
        if sent.name == "output":
            _interrupt_once_it_waits()

    with pytest.raises(KeyboardInterrupt):
        hands.sh(LONG, on_sent=begun)
    assert hands.last is not None and hands.last.status == "cancelled"
    assert hands.show().stdout == "begun\n"


def test_an_interrupt_while_it_waits_for_a_person_cancels_the_run(hands: Hands) -> None:
    def asks(sent: Sent) -> None:
        if sent.data.get("status") == "awaiting_approval":
            _interrupt_once_it_waits()

    with pytest.raises(KeyboardInterrupt):
        hands.sh(ASKS, wait_for_approval=None, on_sent=asks)
    assert hands.last is not None and hands.last.status == "cancelled"


def test_an_interrupt_while_it_begins_cancels_what_was_begun(
    hands: Hands, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = backend.start

    def slow(*arguments: Any) -> Any:
        _interrupt()
        return start(*arguments)

    monkeypatch.setattr(backend, "start", slow)
    with pytest.raises(KeyboardInterrupt):
        hands.sh(LONG)
    assert hands.last is not None and hands.last.status == "cancelled"
    assert hands.runs("running").data["runs"] == []


class Held:
    """A start that goes on when it is let."""

    def __init__(self, backend: Backend) -> None:
        self._start = backend.start
        self.is_asked, self.may_go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.is_asked.set()
        assert self.may_go.wait(60)
        return self._start(*arguments)


def _until_stopped() -> None:
    for thread in threading.enumerate():
        if thread.name in ("wap-start", "wap-stop"):
            thread.join(60)


def test_what_begins_after_the_patience_of_an_interrupt_is_cancelled_too(
    hands: Hands, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    monkeypatch.setattr(backend, "start", held)
    monkeypatch.setattr(watching, "STOP_SECONDS", 0.0)
    threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
    with pytest.raises(KeyboardInterrupt):
        hands.sh(LONG)
    assert hands.last is None, "it is not known yet which it is"
    held.may_go.set()
    _until_stopped()
    assert hands.last is not None and hands.last.status == "cancelled"
    assert hands.runs("running").data["runs"] == []


def test_a_second_interrupt_does_not_keep_the_first_from_cancelling(
    hands: Hands, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    monkeypatch.setattr(backend, "start", held)

    def impatient(*_: Any) -> None:
        _interrupt()
        time.sleep(60)  # which the interrupt ends

    monkeypatch.setattr(watching, "wait", impatient)
    threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
    with pytest.raises(KeyboardInterrupt):
        hands.sh(LONG)
    held.may_go.set()
    _until_stopped()
    assert hands.last is not None and hands.last.status == "cancelled"


def test_an_earlier_run_that_ends_late_is_not_the_last_one(
    hands: Hands, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "start", held)
        patch.setattr(watching, "STOP_SECONDS", 0.0)
        threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
        with pytest.raises(KeyboardInterrupt):
            hands.sh(LONG)
    later = hands.sh("true")
    held.may_go.set()
    _until_stopped()
    assert hands.last is later
    assert hands.runs("running").data["runs"] == []


def test_who_is_told_may_stop_it(hands: Hands) -> None:
    """From a thread that no interrupt reaches."""

    def told(sent: Sent) -> None:
        raise watching.Stopped

    with pytest.raises(watching.Stopped):
        hands.sh(LONG, on_sent=told)
    assert hands.last is not None and hands.last.status == "cancelled"


def test_an_interrupt_is_not_hidden_by_a_server_that_is_gone(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: str) -> Any:
        raise WapError("gone")

    def begun(sent: Sent) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hands._backend, "cancel", gone)
    with pytest.raises(KeyboardInterrupt):
        hands.sh("true", on_sent=begun)
    assert hands.last is not None and hands.last.status != "cancelled", "as it was seen last"
