"""Events that user interfaces get through Jupyter's event bus."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jupyter_events import EventLogger

from jupyter_ext.notifications import MAX_PATHS, SCHEMA, FilesNotification, Notifications, RunNotification
from tests.support.http_runs import SECONDS, create, start
from wap_kernel.model.run import RunStatus


class Listener:
    def __init__(self, logger: EventLogger) -> None:
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        logger.add_listener(schema_id=SCHEMA, listener=self.listen)

    async def listen(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        self.heard.put_nowait(data)

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.heard.get(), SECONDS)


@pytest.fixture
def logger() -> EventLogger:
    return EventLogger()


@pytest.fixture
def notifications(logger: EventLogger, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Notifications:
    return Notifications(logger, jp_asyncio_loop)


@pytest.fixture
def listener(logger: EventLogger, notifications: Notifications) -> Listener:
    return Listener(logger)


def test_the_schema_states_its_limitations() -> None:
    text = (Path(__file__).parents[2] / "jupyter_ext" / "event_schemas" / "changes" / "v1.yaml").read_text()
    schema = yaml.safe_load(text)
    assert (schema["$id"], schema["version"]) == (SCHEMA, "1")
    assert "Limitations" in schema["description"]
    assert "/api/events" in schema["description"]
    assert schema["properties"]["paths"]["maxItems"] == MAX_PATHS
    assert set(schema["properties"]["status"]["enum"]) == {status.value for status in RunStatus}


async def test_no_credential_is_announced(logger: EventLogger, jp_asyncio_loop: asyncio.AbstractEventLoop) -> None:
    notifications = Notifications(logger, jp_asyncio_loop, lambda text: text.replace("hunter2", "***"))
    listener = Listener(logger)
    notifications.announce(FilesNotification(("a-hunter2",), None, "hunter2"))
    notifications.announce(RunNotification("run_1", "running", "agent hunter2"))
    assert await listener.next() == {"kind": "files", "paths": ["a-***"], "agent": "***"}
    assert await listener.next() == {"kind": "run", "runId": "run_1", "status": "running", "agent": "agent ***"}


async def test_a_run(notifications: Notifications, listener: Listener) -> None:
    notifications.announce(RunNotification("run_1", "running", "claude"))
    notifications.announce(RunNotification("run_1", "completed"))
    assert await listener.next() == {"kind": "run", "runId": "run_1", "status": "running", "agent": "claude"}
    assert await listener.next() == {"kind": "run", "runId": "run_1", "status": "completed"}


async def test_files_are_told_of_together_and_before_the_run_ends(
    notifications: Notifications, listener: Listener
) -> None:
    for number in range(20):
        notifications.announce(FilesNotification((f"f{number}", "same"), run="run_1"))
    notifications.announce(FilesNotification(("alone",), agent="claude"))
    notifications.announce(RunNotification("run_1", "completed"))
    event = await listener.next()
    assert (event["kind"], event["runId"]) == ("files", "run_1")
    assert set(event["paths"]) == {"same", *(f"f{number}" for number in range(20))}
    assert await listener.next() == {"kind": "files", "paths": ["alone"], "agent": "claude"}
    assert (await listener.next())["kind"] == "run"


async def test_too_many_files_are_not_named(notifications: Notifications, listener: Listener) -> None:
    for number in range(MAX_PATHS):
        notifications.announce(FilesNotification((f"f{number}",), run="all"))
        notifications.announce(FilesNotification((f"f{number}", "one more"), run="more"))
    assert len((await listener.next())["paths"]) == MAX_PATHS
    assert await listener.next() == {"kind": "files", "runId": "more"}


async def test_after_a_command_anything_may_have_changed(notifications: Notifications, listener: Listener) -> None:
    for paths in (("a",), (), ("b",)):
        notifications.announce(FilesNotification(paths))
    assert await listener.next() == {"kind": "files"}


async def test_from_a_thread(notifications: Notifications, listener: Listener) -> None:
    await asyncio.to_thread(notifications.announce, FilesNotification(("a",)))
    assert await listener.next() == {"kind": "files", "paths": ["a"]}


def test_after_the_loop_is_closed() -> None:
    loop = asyncio.new_event_loop()
    notifications = Notifications(EventLogger(), loop)
    loop.close()
    notifications.announce(FilesNotification(("a",)))


def test_two_workspaces_of_one_server() -> None:
    logger, loop = EventLogger(), asyncio.new_event_loop()
    Notifications(logger, loop)
    Notifications(logger, loop)
    loop.close()


async def test_the_server_tells_of_runs_and_files(fetch: Any, call: Any, jp_serverapp: Any) -> None:
    listener = Listener(jp_serverapp.event_logger)
    run = (await start(fetch, create("a"), headers={"X-Wap-Agent": "claude"})).body["runId"]
    events = []
    while not events or events[-1].get("status") != "completed":
        events.append(await listener.next())
    assert events[0] == {"kind": "run", "runId": run, "status": "running", "agent": "claude"}
    assert {"kind": "files", "runId": run, "paths": ["a"], "agent": "claude"} in events
    run = (await call("writeFile", path="b", content="x")).body["runId"]
    events = [await listener.next() for _ in range(3)]
    assert {"kind": "files", "runId": run, "paths": ["b"]} in events
    statuses = [event["status"] for event in events if event["kind"] == "run" and event["runId"] == run]
    assert statuses == ["running", "completed"]


async def test_anybody_with_the_servers_token_can_say_so(jp_fetch: Any, jp_serverapp: Any) -> None:
    """Any client may emit such an event, so it is a notification only."""
    listener = Listener(jp_serverapp.event_logger)
    body = {"schema_id": SCHEMA, "version": "1", "data": {"kind": "run", "runId": "made-up", "status": "completed"}}
    assert (await jp_fetch("api/events", method="POST", body=json.dumps(body))).code == 204
    assert (await listener.next())["runId"] == "made-up"
