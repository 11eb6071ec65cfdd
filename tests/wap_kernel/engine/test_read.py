"""Single reads through the pipeline: the policy in force at the time, one audit record, whole contents."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.workspace_tools import Tools
from tests.wap_kernel.engine.test_fast_path import PLAIN
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import Operation, ReadFile
from wap_kernel.model.results import FileContent
from wap_kernel.policy.parse import merge_policy
from wap_kernel.state.audit.query import AuditQuery

OFTEN = 50


@pytest.fixture
def tools(make_tools: Callable[..., Tools]) -> Tools:
    tools = make_tools(policy=PLAIN)
    (tools.root / "folder").mkdir()
    (tools.root / "text.txt").write_text("grün\nblau\n")
    (tools.root / "folder" / "deep.txt").write_text("deep")
    return tools


def test_a_read_is_done_on_a_thread(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    on_thread = tools.workspace.on_thread
    calls: list[type[Operation]] = []

    async def count(kind: type[Operation], work: Callable[[], Any]) -> Any:
        calls.append(kind)
        return await on_thread(kind, work)

    monkeypatch.setattr(tools.workspace, "on_thread", count)
    for _ in range(3):
        tools.readFile(path="text.txt")
    assert calls == [ReadFile] * 3


def test_every_change_of_the_policy_counts_from_the_next_read_on(tools: Tools) -> None:
    """Policies of the same length follow each other as quickly as they can: bytes are compared, not times."""
    policy = tools.root / ".cws-policy.json"
    for number in range(OFTEN):
        denies = number % 2 == 0
        policy.write_text(json.dumps({"deniedPaths": ["text.txt" if denies else "none.txt"]}))
        if denies:
            assert tools.refuse("readFile", path="text.txt").code is Code.PERMISSION_DENIED
        else:
            assert tools.readFile(path="text.txt")["content"] == "grün\nblau\n"
    policy.unlink()
    policy.symlink_to("text.txt")
    assert tools.refuse("readFile", path="text.txt").code is Code.PERMISSION_DENIED


def test_each_token_has_its_own_policy(tools: Tools) -> None:
    narrow = merge_policy(PLAIN, {"filesystem": {"deniedPaths": ["text.txt"]}})
    agent = Caller(user="ada", token="t", scope=Scope(layers=(narrow,)))
    for _ in range(OFTEN):
        assert tools.readFile(path="text.txt")["content"] == "grün\nblau\n"
        with pytest.raises(WapError, match="denied"):
            asyncio.run(tools.workspace.perform(ReadFile(path="text.txt"), agent))
        deep = asyncio.run(tools.workspace.perform(ReadFile(path="folder/deep.txt"), agent))
        assert isinstance(deep, FileContent)


def test_a_read_is_recorded_once(tools: Tools) -> None:
    tools.readFile(path="folder/deep.txt")
    records = tools.workspace._audit.page(AuditQuery(limit=100))["records"]
    matching = [record for record in records if record["summary"] == {"path": "folder/deep.txt"}]
    assert [record["outcome"] for record in matching] == ["ok"]


def test_a_closed_workspace_refuses(tools: Tools) -> None:
    tools.readFile(path="text.txt")
    asyncio.run(tools.workspace.close())
    assert tools.refuse("readFile", path="text.txt").code is Code.PROVIDER_UNAVAILABLE


def test_files_that_change_all_the_time_are_read_whole(tools: Tools) -> None:
    """The file is replaced as a whole, so each answer is one of the two contents."""
    contents = {name: name * 2000 for name in "ab"}
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            for name, content in contents.items():
                (tools.root / f"new {name}").write_text(content)
                (tools.root / f"new {name}").replace(tools.root / "text.txt")

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        answers = [tools.readFile(path="text.txt")["content"] for _ in range(OFTEN)]
    finally:
        stop.set()
        thread.join()
    assert set(answers) <= {"grün\nblau\n", *contents.values()}
