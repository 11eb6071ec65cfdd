"""Interrupts of a run at every point."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from wap_kernel.client import run_tracker
from wap_kernel.client.backend import Backend, RunUpdate
from wap_kernel.client.workspace_client import WorkspaceClient
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


def test_an_interrupt_cancels_the_run(client: WorkspaceClient) -> None:
    def begun(sent: RunUpdate) -> None:
        if sent.name == "output":
            _interrupt_once_it_waits()

    with pytest.raises(KeyboardInterrupt):
        client.sh(LONG, on_update=begun)
    assert client.last is not None and client.last.status == "cancelled"
    assert client.show().stdout == "begun\n"


def test_an_interrupt_while_it_waits_for_a_person_cancels_the_run(client: WorkspaceClient) -> None:
    def asks(sent: RunUpdate) -> None:
        if sent.data.get("status") == "awaiting_approval":
            _interrupt_once_it_waits()

    with pytest.raises(KeyboardInterrupt):
        client.sh(ASKS, wait_for_approval=None, on_update=asks)
    assert client.last is not None and client.last.status == "cancelled"


def test_an_interrupt_while_it_begins_cancels_what_was_begun(
    client: WorkspaceClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = backend.start

    def slow(*arguments: Any) -> Any:
        _interrupt()
        return start(*arguments)

    monkeypatch.setattr(backend, "start", slow)
    with pytest.raises(KeyboardInterrupt):
        client.sh(LONG)
    assert client.last is not None and client.last.status == "cancelled"
    assert client.runs("running").data["runs"] == []


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
    client: WorkspaceClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    monkeypatch.setattr(backend, "start", held)
    monkeypatch.setattr(run_tracker, "STOP_SECONDS", 0.0)
    threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
    with pytest.raises(KeyboardInterrupt):
        client.sh(LONG)
    assert client.last is None, "it is not known yet which it is"
    held.may_go.set()
    _until_stopped()
    assert client.last is not None and client.last.status == "cancelled"
    assert client.runs("running").data["runs"] == []


def test_a_second_interrupt_does_not_keep_the_first_from_cancelling(
    client: WorkspaceClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    monkeypatch.setattr(backend, "start", held)

    def impatient(*_: Any) -> None:
        _interrupt()
        time.sleep(60)  # which the interrupt ends

    monkeypatch.setattr(run_tracker, "wait", impatient)
    threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
    with pytest.raises(KeyboardInterrupt):
        client.sh(LONG)
    held.may_go.set()
    _until_stopped()
    assert client.last is not None and client.last.status == "cancelled"


def test_an_earlier_run_that_ends_late_is_not_the_last_one(
    client: WorkspaceClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(backend)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "start", held)
        patch.setattr(run_tracker, "STOP_SECONDS", 0.0)
        threading.Thread(target=lambda: held.is_asked.wait(60) and _interrupt()).start()
        with pytest.raises(KeyboardInterrupt):
            client.sh(LONG)
    later = client.sh("true")
    held.may_go.set()
    _until_stopped()
    assert client.last is later
    assert client.runs("running").data["runs"] == []


def test_who_is_told_may_stop_it(client: WorkspaceClient) -> None:
    """From a thread that no interrupt reaches."""

    def told(sent: RunUpdate) -> None:
        raise run_tracker.RunAbandoned

    with pytest.raises(run_tracker.RunAbandoned):
        client.sh(LONG, on_update=told)
    assert client.last is not None and client.last.status == "cancelled"


def test_an_interrupt_is_not_hidden_by_a_server_that_is_gone(
    client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: str) -> Any:
        raise WapError("gone")

    def begun(sent: RunUpdate) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client._backend, "cancel", gone)
    with pytest.raises(KeyboardInterrupt):
        client.sh("true", on_update=begun)
    assert client.last is not None and client.last.status != "cancelled", "as it was seen last"
