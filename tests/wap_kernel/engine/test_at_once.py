"""Reads that wait for nothing: they answer what any other read answers, or leave it to a thread."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wap_kernel.conftest import Tools
from tests.wap_kernel.engine.test_fast_path import PLAIN, READS
from wap_kernel.files import at_once, filesystem_type
from wap_kernel.files.at_once import MAX_SIZE, AtOnce, HeldFile
from wap_kernel.model.call_context import ALONE
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import ReadFile
from wap_kernel.model.results import FileContent
from wap_kernel.policy.parse import merge
from wap_kernel.state.audit.log import Page

PERSON = Caller(user="tester")
OFTEN = 50
TRIES = 1000


@pytest.fixture
def tools(make_tools: Callable[..., Tools]) -> Tools:
    tools = make_tools(policy=PLAIN)
    root = tools.root
    (root / "folder").mkdir()
    (root / "text.txt").write_text("grün\nblau\n")
    (root / "folder" / "deep.txt").write_text("deep")
    (root / "empty").write_bytes(b"")
    (root / "latin.txt").write_bytes(b"gr\xfcn")
    (root / "binary").write_bytes(b"\0\1\2")
    (root / "large").write_bytes(b"x" * 5001)
    (root / "secret.key").write_text("secret")
    (root / "link.txt").symlink_to("text.txt")
    (root / "way").symlink_to("folder")
    (root / "out").symlink_to("/etc/hostname")
    (root / "to.txt").symlink_to("secret.key")
    os.mkfifo(root / "pipe")
    if not filesystem_type.is_prompt(str(root)):
        pytest.skip("on this file system everything is left to threads")
    return tools


def _at_once(tools: Tools, operation: ReadFile) -> Any:
    return tools.workspace.pipeline.read_at_once(operation, PERSON, ALONE)


def _soon(tools: Tools, operation: ReadFile) -> Any:
    """Not always at once: the kernel also gives up when something is renamed anywhere meanwhile."""
    for _ in range(TRIES):
        tools.readFile(path=operation.path)
        if (found := _at_once(tools, operation)) is not None:
            return found
    raise AssertionError("never at once")


def _answer(tools: Tools, read: dict[str, Any]) -> object:
    try:
        return tools.readFile(**read)
    except WapError as error:
        return error.code, error.text, error.details


def _settle(tools: Tools) -> None:
    """A name that was never looked up is known to nobody, and a policy that was never read neither."""
    assert tools.readFile(path="text.txt")["content"]


def test_the_answers_are_those_of_a_thread(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # then the kernel knows them by heart
        short = [_answer(tools, read) for read in READS]
    with monkeypatch.context() as patched:
        patched.setattr(tools.workspace._files, "at_once", None)
        long = [_answer(tools, read) for read in READS]
    assert short == long


@pytest.mark.parametrize("path", ["text.txt", "./folder/deep.txt", "empty", "latin.txt"])
def test_what_is_read_at_once_takes_no_thread(tools: Tools, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    expected = tools.readFile(path=path)
    on_thread = tools.workspace.on_thread
    calls = []

    async def counted(kind: Any, work: Any) -> Any:
        calls.append(kind)
        return await on_thread(kind, work)

    monkeypatch.setattr(tools.workspace, "on_thread", counted)
    for tries in range(1, TRIES):
        assert tools.readFile(path=path) == expected
        if len(calls) < tries:
            return
    raise AssertionError("always on a thread")


@pytest.mark.parametrize(
    "operation",
    [
        *(ReadFile(path=path) for path in ("link.txt", "way/deep.txt", "out", "to.txt", "secret.key", ".git/config")),
        *(ReadFile(path=path) for path in ("large", "binary", "folder", "pipe", "nothing", "folder/../text.txt")),
        *(ReadFile(path="text.txt", start_line=1), ReadFile(path="folder/deep.txt", within="folder")),
    ],
    ids=str,
)
def test_what_is_left_to_a_thread(tools: Tools, operation: ReadFile) -> None:
    _settle(tools)
    before = len(os.listdir("/proc/self/fd"))
    assert _at_once(tools, operation) is None
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor was left open"


def test_a_large_file_is_left_to_a_thread(make_tools: Callable[..., Tools]) -> None:
    tools = make_tools()
    (tools.root / "small").write_bytes(b"x" * MAX_SIZE)
    (tools.root / "large").write_bytes(b"x" * (MAX_SIZE + 1))
    assert _soon(tools, ReadFile(path="small")).metadata.size == MAX_SIZE
    tools.readFile(path="large")
    assert _at_once(tools, ReadFile(path="large")) is None


@pytest.mark.parametrize("size", [0, 5, 7])
def test_a_file_that_is_not_what_it_was_when_it_was_opened(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 6)
    with HeldFile(os.open(path, os.O_RDONLY), "file") as file:
        os.truncate(path, size)
        with pytest.raises(BlockingIOError):
            file.read()


def test_every_change_of_the_policy_counts_from_the_next_read_on(tools: Tools) -> None:
    """Of the same length, and as quickly as they come: bytes are compared, not times."""
    policy = tools.root / ".cws-policy.json"
    for number in range(OFTEN):
        denies = number % 2 == 0
        policy.write_text(json.dumps({"deniedPaths": ["text.txt" if denies else "none.txt"]}))
        if denies:
            assert tools.refuse("readFile", path="text.txt").code is Code.PERMISSION_DENIED
        else:
            assert tools.readFile(path="text.txt")["content"] == "grün\nblau\n"
            assert _soon(tools, ReadFile(path="text.txt")).content == "grün\nblau\n"
    policy.unlink()
    policy.symlink_to("text.txt")
    assert tools.refuse("readFile", path="text.txt").code is Code.PERMISSION_DENIED


def test_each_token_has_its_own_policy(tools: Tools) -> None:
    narrow = merge(PLAIN, {"filesystem": {"deniedPaths": ["text.txt"]}})
    agent = Caller(user="ada", token="t", scope=Scope(layers=(narrow,)))
    for _ in range(OFTEN):
        assert _soon(tools, ReadFile(path="text.txt")).content == "grün\nblau\n"
        with pytest.raises(WapError, match="denied"):
            asyncio.run(tools.workspace.perform(ReadFile(path="text.txt"), agent))
        assert tools.workspace.pipeline.read_at_once(ReadFile(path="text.txt"), agent, ALONE) is None
        deep = asyncio.run(tools.workspace.perform(ReadFile(path="folder/deep.txt"), agent))
        assert isinstance(deep, FileContent)


def test_one_that_asks_is_never_read_at_once(tools: Tools) -> None:
    (tools.root / ".cws-policy.json").write_text('{"confirmationRequired": ["readFile"]}')
    assert tools.refuse("readFile", path="text.txt").code is Code.APPROVAL_REQUIRED
    assert _at_once(tools, ReadFile(path="text.txt")) is None


def test_it_is_recorded_once(tools: Tools) -> None:
    _settle(tools)
    number = 0
    while _at_once(tools, ReadFile(path="folder/deep.txt")) is None:
        number += 1
        tools.readFile(path="text.txt")
        assert number < TRIES
    records = tools.workspace._audit.page(Page(limit=100))["records"]
    found = [record for record in records if record["summary"] == {"path": "folder/deep.txt"}]
    assert [record["outcome"] for record in found] == ["ok"]


def test_a_closed_workspace_refuses(tools: Tools) -> None:
    _settle(tools)
    asyncio.run(tools.workspace.close())
    assert tools.refuse("readFile", path="text.txt").code is Code.PROVIDER_UNAVAILABLE


def test_files_that_change_all_the_time_are_read_whole(tools: Tools) -> None:
    """Replaced as a whole, so each answer is one of the two."""
    contents = {name: name * 2000 for name in "ab"}
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            for name, content in contents.items():
                (tools.root / f"new {name}").write_text(content)
                (tools.root / f"new {name}").replace(tools.root / "text.txt")

    thread = threading.Thread(target=replace)
    _settle(tools)
    thread.start()
    try:
        answers = [_at_once(tools, ReadFile(path="text.txt")) for _ in range(OFTEN * 10)]
    finally:
        stop.set()
        thread.join()
    assert {answer.content for answer in answers if answer is not None} <= {"grün\nblau\n", *contents.values()}


def test_where_it_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert at_once.load(folder, "/proc") is None
        monkeypatch.setattr(filesystem_type, "PROMPT", {})
        assert at_once.load(folder, str(tmp_path)) is None
    finally:
        os.close(folder)


def test_other_files_of_the_machine(tools: Tools, tmp_path: Path) -> None:
    machine = tools.workspace._files.at_once
    assert isinstance(machine, AtOnce)
    path = tmp_path / "machine.json"
    assert _told(machine, path) is None
    path.write_text("{}")
    assert _told(machine, path) == b"{}"
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(OSError, match="symbolic"):
        _told(machine, tmp_path / "link.json")


def _told(machine: AtOnce, path: Path) -> bytes | None:
    for _ in range(TRIES):
        path.exists()  # now the kernel knows
        try:
            return machine.content_elsewhere(str(path))
        except BlockingIOError:
            continue
    raise AssertionError("never at once")
