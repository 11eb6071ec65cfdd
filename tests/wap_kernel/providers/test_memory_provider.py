"""The interface fits a place that shares nothing with the host: the engine's file operations answer as on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.support.memory_provider import MemoryProvider
from tests.support.provider_workspace import LONG, SERVER, Guard, cancelling
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import Files
from wap_kernel.files.list_folder import list_files
from wap_kernel.files.read import read_file
from wap_kernel.files.write import Writer
from wap_kernel.model.command import Command, Deadline
from wap_kernel.model.edits import ReplaceLines
from wap_kernel.model.errors import ProviderUnavailable, WapError, translate_os_error
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    WriteFile,
)
from wap_kernel.model.results import Limits
from wap_kernel.providers.base import Provider

LIMITS = Limits()


class Locks:
    def hold(self, *paths: str) -> nullcontext[None]:
        return nullcontext()


@pytest.fixture
def memory() -> MemoryProvider:
    provider = MemoryProvider(Guard(), SERVER)
    provider.start()
    return provider


def perform(files: Files, operation: Operation) -> object:
    """Return the result, or the code and the text of the error, without times and the name of the root."""
    writer = Writer(files, Locks(), LIMITS)
    actions: dict[type[Operation], Callable[..., object]] = {
        ReadFile: lambda asked: read_file(files, asked, LIMITS, "/root").model_dump(exclude={"metadata"}),
        ListFiles: lambda asked: list_files(files, asked, LIMITS, "/root", Deadline(LONG)),
        WriteFile: writer.write,
        ModifyFile: writer.modify,
        MoveFile: writer.move,
        CopyFile: writer.copy,
        DeleteFile: writer.delete,
        CreateDirectory: writer.make_folder,
    }
    try:
        try:
            return actions[type(operation)](operation)
        except OSError as error:
            raise translate_os_error(error, str(next(iter(operation.summary().values())))) from error
    except WapError as refusal:
        return refusal.code, refusal.message


STORY: tuple[Operation, ...] = (
    WriteFile(path="a.txt", content=b"one\ntwo\n"),
    ReadFile(path="a.txt"),
    ReadFile(path="a.txt", start_line=2, end_line=2),
    ReadFile(path="missing"),
    ReadFile(path="missing/below"),
    ReadFile(path="a.txt/below"),
    ReadFile(path="."),
    ReadFile(path="../outside"),
    WriteFile(path="deep/er/b.txt", content=b"x"),
    WriteFile(path="deep/er/b.txt", content=b"x", create_directories=True),
    WriteFile(path="a.txt", content=b"again", mode="create"),
    WriteFile(path="a.txt", content=b"three\n", mode="append"),
    WriteFile(path="log", content=b"first\n", mode="append"),
    WriteFile(path="deep", content=b"a folder"),
    ModifyFile(path="a.txt", edits=(ReplaceLines(start_line=1, end_line=1, new_content="ONE\n"),)),
    ModifyFile(path="missing", edits=(ReplaceLines(start_line=1, end_line=1, new_content="x"),)),
    ReadFile(path="a.txt"),
    WriteFile(path="a.txt", content=b"x", expected_hash="sha256:" + "0" * 64),
    CreateDirectory(path="deep"),
    CreateDirectory(path="new/folder"),
    CreateDirectory(path="a.txt"),
    CopyFile(source="a.txt", destination="new/copy.txt"),
    CopyFile(source="a.txt", destination="deep/er/b.txt"),
    CopyFile(source="a.txt", destination="deep/er/b.txt", overwrite=True),
    MoveFile(source="deep", destination="moved"),
    MoveFile(source="missing", destination="x"),
    MoveFile(source="a.txt", destination="log"),
    ListFiles(path=".", recursive=True),
    ListFiles(path="moved"),
    ListFiles(path="a.txt"),
    ListFiles(path="missing"),
    DeleteFile(path="log"),
    DeleteFile(path="log"),
    DeleteFile(path="moved"),
    DeleteFile(path="moved", recursive=True),
    ListFiles(path=".", recursive=True),
)


def test_the_engine_answers_as_on_the_disk(memory: MemoryProvider, root: Root) -> None:
    for operation in STORY:
        assert perform(memory.files, operation) == perform(root, operation), operation


def command(text: str | tuple[str, ...], cwd: str = ".", timeout: float = LONG) -> Command:
    return Command(text, timeout=timeout, output_limit=1000, cwd=cwd)


def test_commands_see_the_same_files(memory: MemoryProvider) -> None:
    provider: Provider = memory
    provider.files.replace("in", b"given\n")
    outcome = provider.run(command("cat in; echo made > out; exit 3"))
    assert (outcome.stdout, outcome.exit_code) == ("given\n", 3)
    with provider.files.open("out") as file:
        assert file.read() == b"made\n"
    assert provider.run(command(("echo", "a  b", ";"))).stdout == "a  b ;\n"


def test_a_command_is_cancelled_or_times_out(memory: MemoryProvider) -> None:
    on_chunk, cancel = cancelling()
    outcome = memory.run(command("echo ready; wait"), on_chunk=on_chunk, cancel=cancel)
    assert (outcome.stdout, outcome.cancelled, outcome.timed_out) == ("ready\n", True, False)
    assert memory.run(command("wait", timeout=0.01)).timed_out


def asleep(provider: MemoryProvider) -> None:
    provider.keep_alive(-1.0)


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(MemoryProvider.vanish, "gone"), (MemoryProvider.close, "stopped"), (asleep, "asleep")],
)
def test_a_place_that_is_not_there(
    memory: MemoryProvider, happens: Callable[[MemoryProvider], None], reason: str
) -> None:
    memory.files.replace("file", b"x")
    happens(memory)
    for attempt in (
        lambda: memory.run(command("true")),
        lambda: memory.files.open("file"),
        lambda: memory.files.replace("file", b"y"),
        lambda: memory.files.open_folder("."),
    ):
        with pytest.raises(ProviderUnavailable, match=reason):
            attempt()


def test_it_disappears_while_a_command_runs(memory: MemoryProvider) -> None:
    started = threading.Event()

    def on_chunk(*_: object) -> None:
        memory.vanish()
        started.set()

    with pytest.raises(ProviderUnavailable, match="gone"):
        memory.run(command("echo one; echo two"), on_chunk=on_chunk)
    assert started.is_set()


def test_it_wakes_up_again(memory: MemoryProvider) -> None:
    memory.files.replace("file", b"x")
    asleep(memory)
    with pytest.raises(ProviderUnavailable):
        memory.files.stat("file")
    memory.start()
    assert memory.files.stat("file").size == 1
