"""The files of the workspace as MCP resources: listed, read, completed and subscribed to, as far as policy goes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from typing import Any

import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import until
from tests.support.mcp_clients import (
    ENVELOPE,
    ERAS,
    LEGACY,
    MODERN,
    Connect,
    Post,
    answer,
    connect,
    mcp_url,
    post,
    refused,
    request,
    within_time,
)
from wap_kernel.dialects.mcp import resources

__all__ = ["connect", "mcp_url", "post"]
eras = pytest.mark.parametrize("mode", ERAS)


@eras
async def test_files_are_listed_page_by_page(
    connect: Connect, jp_root_dir: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MCP_RESOURCE_PAGE", 2)
    for name in ("a.txt", "b/c d.py", "b/é.ipynb", "node_modules/x.js"):
        (jp_root_dir / name).parent.mkdir(exist_ok=True)
        (jp_root_dir / name).write_text("x")
    async with connect(mode) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        error = await refused(client.list_resources(cursor="x"))
    assert error.code == -32602
    assert (len(first.resources), second.next_cursor) == (2, None)
    found = {one.name: one for one in (*first.resources, *second.resources)}
    assert set(found) == {"a.txt", "b/c d.py", "b/é.ipynb"}
    assert found["a.txt"].uri == (jp_root_dir / "a.txt").as_uri()
    assert found["b/c d.py"].uri == (jp_root_dir / "b/c d.py").as_uri()
    assert (found["a.txt"].mime_type, found["a.txt"].size) == ("text/plain", 1)


@eras
async def test_a_file_that_is_not_utf8_is_read_as_it_is(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / "latin.txt").write_bytes("é\n".encode("latin-1"))
    async with connect(mode) as client:
        (blob,) = (await client.read_resource((jp_root_dir / "latin.txt").as_uri())).contents
    assert isinstance(blob, types.BlobResourceContents)
    assert base64.b64decode(blob.blob) == b"\xe9\n"


@eras
async def test_text_and_bytes_are_read(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / "é f.txt").write_text("text\n")
    (jp_root_dir / "b.bin").write_bytes(bytes(range(256)))
    async with connect(mode) as client:
        (text,) = (await client.read_resource((jp_root_dir / "é f.txt").as_uri())).contents
        (blob,) = (await client.read_resource((jp_root_dir / "b.bin").as_uri())).contents
        (template,) = (await client.list_resource_templates()).resource_templates
    assert isinstance(text, types.TextResourceContents) and text.text == "text\n"
    assert isinstance(blob, types.BlobResourceContents) and base64.b64decode(blob.blob) == bytes(range(256))
    assert template.uri_template == f"{jp_root_dir.as_uri()}/{{+path}}"


@eras
@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("file:///etc/passwd", -32001),
        ("file://{root}/../outside", -32001),
        ("file://{root}/%2e%2e/outside", -32001),
        ("file://elsewhere{root}/a.txt", -32602),
        ("file://{root}/missing", -32602),
        ("file://{root}/%00", -32602),
        ("file://{root}/%ff", -32602),
        ("file://{root}", -32602),
        ("http://example.org/", -32602),
        ("closed", -32602),
        ("file://{root}/closed/a.txt", -32002),
        ("file://{root}/link", -32001),
    ],
)
async def test_what_may_not_be_read_is_refused(
    connect: Connect, jp_root_dir: Any, mode: str, uri: str, code: int
) -> None:
    (jp_root_dir / "closed").mkdir()
    (jp_root_dir / "closed" / "a.txt").write_text("closed")
    (jp_root_dir / "file").write_text("open")
    targets = {"link": "/etc/passwd", "in": "closed/a.txt", "lost": "nowhere", "folder": ".", "good": "file"}
    for name, target in targets.items():
        (jp_root_dir / name).symlink_to(target)
    os.mkfifo(jp_root_dir / "pipe")
    (jp_root_dir / ".cws-policy.json").write_text(json.dumps({"deniedPaths": ["closed/**"]}))
    uri = uri.replace("{root}", str(jp_root_dir))
    async with connect(mode) as client:
        error = await refused(client.read_resource(uri))
        listed = {one.name for one in (await client.list_resources()).resources}
    assert (error.code, error.data["uri"]) == (code, uri)
    assert listed == {".cws-policy.json", "file", "good"}, "what can be read"


@eras
async def test_paths_are_completed(connect: Connect, jp_root_dir: Any, mode: str) -> None:
    (jp_root_dir / "src").mkdir()
    (jp_root_dir / "src" / "main.py").touch()
    (jp_root_dir / "start.txt").touch()
    async with connect(mode) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        ref = types.ResourceTemplateReference(uri=template.uri_template)

        async def values(typed: str) -> list[str]:
            return (await client.complete(ref, {"name": "path", "value": typed})).completion.values

        assert await values("s") == ["src/", "start.txt"]
        assert await values("src/m") == ["src/main.py"]
        assert await values("/etc/p") == await values("../") == await values("nothing/") == []


class Notified:
    """The notifications of a session."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._arrived = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))
            self._arrived.set()

    async def next(self) -> str:
        await within_time(self._arrived.wait())
        self._arrived.clear()
        return self.uris[-1]


async def test_a_session_hears_of_changes_by_tools_and_commands(connect: Connect, jp_root_dir: Any) -> None:
    (jp_root_dir / "a.txt").write_text("one")
    uri, notified = (jp_root_dir / "a.txt").as_uri(), Notified()
    async with connect(LEGACY, message_handler=notified) as client, connect(LEGACY) as other:
        with pytest.warns(UserWarning, match="subscribe"):
            await client.subscribe_resource(uri)
        answer(await other.call_tool("writeFile", {"path": "b.txt", "contents": "other"}))
        answer(await other.call_tool("writeFile", {"path": "a.txt", "contents": "two"}))
        assert await notified.next() == uri
        answer(await other.call_tool("runCommand", {"command": "touch", "args": ["a.txt"]}))
        assert await notified.next() == uri
        answer(await client.call_tool("deleteFile", {"path": "a.txt"}))
        assert await notified.next() == uri
        with pytest.warns(UserWarning, match="subscribe"):
            await client.unsubscribe_resource(uri)
        with pytest.warns(UserWarning, match="subscribe"):
            await client.subscribe_resource((jp_root_dir / "c.txt").as_uri())
        heard = len(notified.uris)
        answer(await other.call_tool("writeFile", {"path": "a.txt", "contents": "three"}))
        answer(await other.call_tool("writeFile", {"path": "c.txt", "contents": "new"}))
        assert (await notified.next()).endswith("c.txt")
        assert len(notified.uris) == heard + 1


async def test_a_listener_hears_of_changes(connect: Connect, jp_root_dir: Any) -> None:
    uri = (jp_root_dir / "a.txt").as_uri()
    async with connect(MODERN) as client, client.listen(resource_subscriptions=[uri]) as events:
        answer(await client.call_tool("writeFile", {"path": "a.txt", "contents": "two"}))
        assert await within_time(anext(aiter(events))) == ResourceUpdated(uri)


async def test_a_credential_listens_so_often_and_leaves_room_for_others(
    connect: Connect, fetch: Any, jp_root_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MCP_MAX_LISTENERS", 2)
    agent, uri = bearer(await mint(fetch)), (jp_root_dir / "a.txt").as_uri()
    async with connect(MODERN, agent) as client, connect(MODERN) as person:
        async with client.listen(resource_subscriptions=[uri]), client.listen(resource_subscriptions=[uri]):
            error = await refused(client.listen(resource_subscriptions=[uri]).__aenter__())
            assert (error.code, error.data["code"]) == (-32603, "RATE_LIMITED")
            assert error.data["hint"]
            async with person.listen(resource_subscriptions=[uri]):
                pass

        async def listens() -> None:
            while True:
                try:
                    async with client.listen(resource_subscriptions=[uri]):
                        return
                except MCPError:  # it takes a moment until those that have gone are missed
                    continue

        await within_time(listens())


async def test_nothing_is_promised_that_is_never_told(connect: Connect, post: Post) -> None:
    headers = {"Mcp_Protocol_Version": MODERN, "Mcp_Method": "server/discover"}
    notified = (await post(request("server/discover", _meta=ENVELOPE), **headers)).json()["result"]["capabilities"]
    assert not any("listChanged" in notified[name] for name in ("tools", "prompts", "resources"))
    assert notified["resources"]["subscribe"] is True
    async with connect(MODERN) as client, client.listen(tools_list_changed=True, resources_list_changed=True) as events:
        assert events.honored.tools_list_changed is None
        assert events.honored.resources_list_changed is None


@eras
async def test_nobody_hears_of_what_they_may_not_read(
    connect: Connect, fetch: Any, jp_root_dir: Any, mode: str
) -> None:
    agent = bearer(await mint(fetch, policy={"deniedPaths": ["closed.txt"]}))
    closed, open_ = [(jp_root_dir / name).as_uri() for name in ("closed.txt", "open.txt")]
    async with connect(mode, agent) as client, connect() as person:
        if mode == LEGACY:
            with pytest.warns(UserWarning, match="subscribe"):
                error = await refused(client.subscribe_resource(closed))
            assert error.data["code"] == "PERMISSION_DENIED"
            assert "policy should be changed" in error.message
            return
        async with client.listen(resource_subscriptions=[closed, open_]) as events:
            answer(await person.call_tool("writeFile", {"path": "closed.txt", "contents": "x"}))
            answer(await person.call_tool("writeFile", {"path": "open.txt", "contents": "x"}))
            assert await within_time(anext(aiter(events))) == ResourceUpdated(open_)


async def test_an_ended_session_leaves_no_subscription(connect: Connect, jp_root_dir: Any, extension: Any) -> None:
    async with connect(LEGACY) as client:
        with pytest.warns(UserWarning, match="subscribe"):
            await client.subscribe_resource((jp_root_dir / "a.txt").as_uri())
        assert len(extension._changes._listeners) == 1
    await until(lambda: not extension._changes._listeners)
