"""Server-sent events: everything in order, while it happens; resumed without loss; no burden on anybody."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.handlers.event_streams import StreamHandler
from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import SECONDS, Events, Sent, create, decide, ended, read, shell, start, until
from tests.support.server_processes import start_server

Open = Callable[..., Awaitable[Events]]


pytestmark = pytest.mark.wap_settings(allow_unconfined=True)


@pytest.fixture
def listen(http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]) -> Iterator[Open]:
    """Open readers of server-sent events, which are closed at the end of the test."""
    opened: list[Events] = []

    async def listen(path: str, **headers: str) -> Events:
        port = http_server_client.get_http_port()
        opened.append(await Events.open(port, f"{jp_base_url}{path}", {**jp_auth_header, **headers}))
        return opened[-1]

    yield listen
    for events in opened:
        events.close()


def _events(sent: list[Sent]) -> list[Any]:
    return [one.data for one in sent if one.name == "event"]


def _output(sent: list[Sent], stream: str = "stdout") -> str:
    return "".join(one.data["chunk"] for one in sent if one.name == "output" and one.data["stream"] == stream)


async def test_a_run_from_its_beginning_to_its_end(fetch: Any, listen: Open, jp_root_dir: Any) -> None:
    command = "echo out; echo err >&2; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo more"
    run = (await start(fetch, create("a"), shell(command, id="long"), create("b"), wait=0)).body["runId"]
    stream = await listen(f"wap/runs/{run}/stream")
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-cache"
    assert stream.headers["x-accel-buffering"] == "no"
    seen: list[Sent] = []
    while _output(seen) != "out\n" or _output(seen, "stderr") != "err\n":  # while it runs
        sent = await stream.next_event()
        assert sent is not None
        seen.append(sent)
    assert (await fetch(f"wap/runs/{run}")).body["status"] == "running"
    (jp_root_dir / "go").touch()
    seen += await stream.rest()
    message = (await fetch(f"wap/runs/{run}")).body
    assert _events(seen) == message["events"]
    assert _output(seen) == "out\nmore\n"
    assert all(one.data["operationId"] == "long" for one in seen if one.name == "output")
    statuses = [one.data["status"] for one in seen if one.name == "status"]
    assert (statuses[0], statuses[-1], seen[-1].name) == ("running", "completed", "status")
    names = [one.data["type"] if one.name == "event" else one.name for one in seen]
    assert names.index("createFile") < names.index("output") < names.index("shell")


async def test_a_run_that_has_ended_is_told_from_the_beginning(fetch: Any, listen: Open) -> None:
    message = (await start(fetch, create("a"), shell("seq 1 100000"), read("a"))).body
    seen = await (await listen(f"wap/runs/{message['runId']}/stream")).rest()
    assert _events(seen) == message["events"]
    assert _output(seen) == "".join(f"{number}\n" for number in range(1, 100001))


async def test_two_readers_see_the_same(fetch: Any, listen: Open) -> None:
    run = (await start(fetch, shell("for i in $(seq 50); do echo $i; done"), create("a"), wait=0)).body["runId"]
    streams = [await listen(f"wap/runs/{run}/stream") for _ in range(2)]
    one, other = await asyncio.gather(*(stream.rest() for stream in streams))
    assert _events(one) == _events(other)
    assert _output(one) == _output(other) == "".join(f"{number}\n" for number in range(1, 51))


@pytest.mark.parametrize("by_address", [False, True])
async def test_who_comes_back_loses_nothing(fetch: Any, listen: Open, by_address: bool) -> None:
    operations = [create(f"f{number}") for number in range(5)]
    operations.insert(2, shell("seq 1 60000", id="seq"))
    run = (await start(fetch, *operations)).body["runId"]
    whole = await (await listen(f"wap/runs/{run}/stream")).rest()
    pieces: list[Sent] = []
    while True:
        path, headers = f"wap/runs/{run}/stream", {}
        if pieces and by_address:
            path += f"?lastEventId={pieces[-1].id}"
        elif pieces:
            headers["Last-Event-ID"] = str(pieces[-1].id)
        stream = await listen(path, **headers)
        if stream.status == 204:
            break
        for _ in range(2):
            if (sent := await stream.next_event()) is not None:
                pieces.append(sent)
        stream.close()
    assert _events(pieces) == _events(whole)
    assert _output(pieces) == _output(whole)
    assert pieces[-1] == whole[-1]


async def test_after_the_end_there_is_no_content(fetch: Any, listen: Open, jp_fetch: Any) -> None:
    run = (await start(fetch, create("a"))).body["runId"]
    last = (await (await listen(f"wap/runs/{run}/stream")).rest())[-1].id
    answer = await jp_fetch(f"wap/runs/{run}/stream", headers={"Last-Event-ID": last})
    assert (answer.code, answer.body) == (204, b"")


@pytest.mark.parametrize("bad", ["x", "-1", "1-2", "9" * 50])
async def test_an_id_that_was_never_sent(fetch: Any, bad: str) -> None:
    run = (await start(fetch)).body["runId"]
    for path in (f"wap/runs/{run}/stream", "wap/events"):
        answer = await fetch(path, headers={"Last-Event-ID": bad})
        assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")


async def test_a_slow_reader_slows_nobody_and_loses_nothing(fetch: Any, listen: Open, jp_root_dir: Any) -> None:
    (jp_root_dir / "big").write_text("x" * 500_000)
    stream = await listen("wap/events")
    run = (await start(fetch, wait=0)).body["runId"]
    slow = await listen("wap/events?lastEventId=0")
    message = (await start(fetch, *[read("big", id=f"r{number}") for number in range(60)])).body
    assert message["status"] == "completed"  # 30 MB, of which nobody has read a byte
    for reader in (slow, stream):
        seen: list[Sent] = []
        while not (seen and seen[-1].name == "status" and seen[-1].data["status"] == "completed" and len(seen) > 60):
            sent = await reader.next_event()
            assert sent is not None
            seen.append(sent)
        ours = [data for data in _events(seen) if data["runId"] == message["runId"]]
        assert [data["operationId"] for data in ours] == [f"r{number}" for number in range(60)]
        assert any(one.data["runId"] == run for one in seen)


async def test_all_runs_in_one_stream(fetch: Any, listen: Open, jp_root_dir: Any) -> None:
    await start(fetch, create("before"))
    stream = await listen("wap/events")
    runs = [(await start(fetch, create(f"f{number}"))).body["runId"] for number in range(3)]
    (jp_root_dir / "data").mkdir()
    asks = (await start(fetch, shell("rm -r data", id="one"))).body["runId"]
    seen = await stream.until_status("awaiting_approval")
    assert [one.data["runId"] for one in seen if one.name == "event"] == [*runs, asks]
    assert {one.data["runId"] for one in seen} == {*runs, asks}
    await decide(fetch, asks, "approved", operationId="one")
    later = await stream.until_status("completed")
    assert [one.data["type"] for one in later if one.name == "event"] == ["shell"]
    again = await listen("wap/events", **{"Last-Event-ID": str(seen[-1].id)})
    assert await again.until_status("completed") == later


async def test_the_stream_of_a_run_goes_on_after_a_decision(fetch: Any, listen: Open, jp_root_dir: Any) -> None:
    (jp_root_dir / "data").mkdir()
    run = (await start(fetch, shell("rm -r data", id="one"), create("a"))).body["runId"]
    stream = await listen(f"wap/runs/{run}/stream")
    await stream.until_status("awaiting_approval")
    await decide(fetch, run, "denied", operationId="one")
    assert [data["type"] for data in _events(await stream.rest())] == ["policyDenied", "createFile"]


@pytest.fixture
def _quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamHandler, "heartbeat_seconds", 0.02)


def test_heartbeats_come_every_fifteen_seconds() -> None:
    assert StreamHandler.heartbeat_seconds == 15


@pytest.mark.usefixtures("_quick_heartbeats")
async def test_heartbeats_in_silence(fetch: Any, listen: Open) -> None:
    run = (await start(fetch, shell("sleep 1000", timeout=600_000), wait=0)).body["runId"]
    for path in (f"wap/runs/{run}/stream", "wap/events"):
        stream = await listen(path)
        beats = 0
        while beats < 3:
            sent = await stream.next()
            assert sent is not None
            beats += sent.name is None
    await fetch(f"wap/runs/{run}/cancel", method="POST")


# ---------------------------------------------------------------------- ends


async def test_a_reader_that_goes_leaves_nothing_behind(
    fetch: Any, listen: Open, extension: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = (await start(fetch, shell("sleep 1000", timeout=600_000), wait=0)).body["runId"]
    streams = [await listen(path) for path in (f"wap/runs/{run}/stream", "wap/events")]
    await streams[0].next_event()
    for stream in streams:
        stream.close()
    notifier = extension.runner._services.notifier
    await until(lambda: not notifier._subscribers)
    assert (await fetch(f"wap/runs/{run}")).body["status"] == "running"
    await fetch(f"wap/runs/{run}/cancel", method="POST")
    assert "Traceback" not in caplog.text


async def test_streams_end_when_the_extension_stops(
    fetch: Any, listen: Open, extension: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = (await start(fetch, shell("sleep 1000", timeout=600_000), wait=0)).body["runId"]
    streams = [await listen(path) for path in (f"wap/runs/{run}/stream", "wap/events")]
    await streams[0].next_event()
    await asyncio.wait_for(extension.stop_extension(), SECONDS)
    for stream in streams:
        await asyncio.wait_for(stream.rest(), SECONDS)
    assert "Traceback" not in caplog.text


def test_an_open_stream_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        connection.request("GET", f"{server.base_url}wap/events", headers={"Authorization": f"token {server.token}"})
        response = connection.getresponse()
        assert response.status == 200
        server.process.terminate()
        server.process.wait(SECONDS)
        response.close()
        connection.close()
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert "never retrieved" not in log


async def test_watching_is_not_activity(fetch: Any, listen: Open, jp_serverapp: Any) -> None:
    run = (await start(fetch)).body["runId"]
    settings = jp_serverapp.web_app.settings
    before = settings["api_last_activity"]
    await (await listen(f"wap/runs/{run}/stream")).rest()
    stream = await listen("wap/events")
    stream.close()
    assert settings["api_last_activity"] == before


# ---------------------------------------------------------------------- who may watch


async def test_an_agent_watches_its_own_runs_only(fetch: Any, listen: Open) -> None:
    one, other = await mint(fetch), await mint(fetch)
    streams = [await listen("wap/events", **bearer(token)) for token in (one, other)]
    await start(fetch, create("a"))
    of_other = (await start(fetch, create("b"), headers=bearer(other))).body["runId"]
    of_one = (await start(fetch, create("c"), headers=bearer(one))).body["runId"]
    for stream, run in zip(streams, (of_one, of_other), strict=True):
        assert {sent.data["runId"] for sent in await stream.until_status("completed")} == {run}
    whole = await (await listen(f"wap/runs/{of_one}/stream", **bearer(one))).rest()
    assert _events(whole)[0]["type"] == "createFile"


@pytest.mark.usefixtures("_quick_heartbeats")
async def test_a_stream_does_not_outlive_its_token(fetch: Any, jp_fetch: Any, listen: Open) -> None:
    minted = await mint(fetch)
    stream = await listen("wap/events", **bearer(minted))
    await stream.next()
    await jp_fetch(f"wap/tokens/{minted['id']}", method="DELETE")
    assert await stream.rest() == []


async def test_the_servers_token_may_stand_in_the_address_and_an_agents_may_not(
    fetch: Any, listen: Open, jp_serverapp: Any
) -> None:
    run = (await start(fetch, create("a"))).body["runId"]
    token = jp_serverapp.identity_provider.token
    stream = await listen(f"wap/runs/{run}/stream?token={token}", Authorization="")
    assert (stream.status, len(_events(await stream.rest()))) == (200, 1)
    minted = await mint(fetch)
    answer = await fetch(f"wap/runs/{run}/stream", params={"token": minted["token"]}, headers={"Authorization": ""})
    assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")


async def test_an_operation_may_have_any_name(fetch: Any, listen: Open) -> None:
    run = (await start(fetch, shell("echo hello", id="a/b?c \u2603"))).body["runId"]
    assert (await listen(f"wap/runs/{run}/output/a%2Fb%3Fc%20%E2%98%83")).status == 200
    assert (await listen(f"wap/runs/{run}/output/a%2Fb")).status == 404


async def test_what_is_sent_is_what_is_stored(fetch: Any, listen: Open) -> None:
    """Lines in the text of an event must not end it."""
    text = "a\r\nb\n\ndata: x\n\u2028\x85\U0001f600"
    run = (await start(fetch, create("a", text), read("a"))).body["runId"]
    seen = await (await listen(f"wap/runs/{run}/stream")).rest()
    assert _events(seen)[1]["content"] == text
    assert (await ended(fetch, run))["events"] == json.loads(json.dumps(_events(seen)))
