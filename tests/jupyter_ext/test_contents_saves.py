from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager, FileContentsManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from jupyter_server.services.contents.manager import ContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_ext.app import WapExtension
from jupyter_ext.contents_saves import attach_save_gate
from tests.support.http_runs import SECONDS, create, start, until
from tests.support.replaced_manager import PairedManager
from wap_kernel.files.save_gate import SaveGate

MANAGERS = (FileContentsManager, LargeFileManager, AsyncFileContentsManager, AsyncLargeFileManager)
TEXT = {"type": "file", "format": "text", "content": "new"}
NOTEBOOK = {"type": "notebook", "format": "json", "content": nbformat.v4.new_notebook()}


class RecordingGate(SaveGate):
    """A gate that records which paths were registered."""

    def __init__(self, root: str) -> None:
        super().__init__(root, timeout=0)
        self.registered: set[str] = set()

    def begin_save(self, *paths: str, timeout: float | None = None) -> int:
        ticket = super().begin_save(*paths, timeout=timeout)
        self.registered.update(self._saves[ticket])
        return ticket

    @property
    def is_idle(self) -> bool:
        return not self._saves


@pytest.fixture
def gate(tmp_path: Path) -> RecordingGate:
    return RecordingGate(str(tmp_path))


@pytest.fixture(params=MANAGERS, ids=lambda kind: kind.__name__)
def manager(request: pytest.FixtureRequest, tmp_path: Path, gate: RecordingGate) -> Any:
    found = request.param(root_dir=str(tmp_path), delete_to_trash=False)
    attach_save_gate(found, gate)
    return found


WRITES: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "save": (lambda manager: manager.save(dict(TEXT), "old.txt"), {"old.txt"}),
    "save by keyword": (lambda manager: manager.save(model=dict(TEXT), path="/folder/new.txt/"), {"folder/new.txt"}),
    "save through links": (
        lambda manager: manager.save(dict(TEXT), "link/old.txt"),
        {"link/old.txt", "folder/old.txt"},
    ),
    "save a notebook": (lambda manager: manager.save(dict(NOTEBOOK), "new.ipynb"), {"new.ipynb"}),
    "save a folder": (lambda manager: manager.save({"type": "directory"}, "new"), {"new"}),
    "new": (lambda manager: manager.new(dict(TEXT), "new.txt"), {"new.txt"}),
    "new_untitled": (lambda manager: manager.new_untitled(type="notebook"), {"Untitled.ipynb"}),
    "copy": (lambda manager: manager.copy("old.txt", "folder"), {"folder/old-Copy1.txt"}),
    "copy a folder": (lambda manager: manager.copy("folder", ""), {"folder-Copy1"}),
    "rename": (lambda manager: manager.rename("old.txt", "new.txt"), {"old.txt", "new.txt"}),
    "rename a folder": (lambda manager: manager.update({"path": "new"}, "folder"), {"folder", "new"}),
    "delete": (lambda manager: manager.delete("old.txt"), {"old.txt"}),
    "restore": (lambda manager: manager.restore_checkpoint("checkpoint", "old.txt"), {"old.txt"}),
}


@pytest.mark.parametrize("write", WRITES)
async def test_every_write_registers_its_paths(manager: Any, gate: RecordingGate, tmp_path: Path, write: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("old.txt", "folder/old.txt"):
        (tmp_path / name).write_text("old")
    await ensure_async(manager.create_checkpoint("old.txt"))
    perform, paths = WRITES[write]
    await ensure_async(perform(manager))
    assert gate.registered == paths and gate.is_idle


async def test_an_upload_in_chunks_registers_each(gate: RecordingGate, tmp_path: Path) -> None:
    for manager in (LargeFileManager(root_dir=str(tmp_path)), AsyncLargeFileManager(root_dir=str(tmp_path))):
        attach_save_gate(manager, gate)
        for chunk in (1, 2, -1):
            await ensure_async(manager.save({**TEXT, "chunk": chunk}, "new.txt"))
            assert gate.registered == {"new.txt"} and gate.is_idle
            gate.registered.clear()
        assert (tmp_path / "new.txt").read_text() == "newnewnew"


async def test_a_write_that_fails_is_unregistered(manager: Any, gate: RecordingGate, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for write in (
        lambda: manager.save({"type": "file"}, "a.txt"),
        lambda: manager.save(dict(TEXT), "folder"),
        lambda: manager.rename("nothing", "b"),
        lambda: manager.delete("nothing"),
        lambda: manager.save(dict(TEXT), "../outside"),
        lambda: manager.save(dict(TEXT), "nul\0"),
    ):
        with pytest.raises(HTTPError):
            await ensure_async(write())
        assert gate.is_idle


async def test_a_save_during_a_section_that_does_not_end_is_refused(
    manager: Any, gate: RecordingGate, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("old")
    begun, end = threading.Event(), threading.Event()

    def change() -> None:
        with gate.exclusive("a.txt"):
            begun.set()
            end.wait(SECONDS)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    begun.wait(SECONDS)
    with pytest.raises(HTTPError) as raised:
        await ensure_async(manager.save(dict(TEXT), "a.txt"))
    await ensure_async(manager.save(dict(TEXT), "b.txt"))
    end.set()
    thread.join(SECONDS)
    assert raised.value.status_code == 503 and "Save again" in str(raised.value.log_message)
    assert (tmp_path / "a.txt").read_text() == "old"
    await ensure_async(manager.save(dict(TEXT), "a.txt"))
    assert (tmp_path / "a.txt").read_text() == "new"


async def test_the_event_loop_goes_on_while_an_async_save_waits_for_a_section(tmp_path: Path) -> None:
    gate = SaveGate(str(tmp_path), timeout=SECONDS)
    manager = AsyncLargeFileManager(root_dir=str(tmp_path))
    attach_save_gate(manager, gate)
    begun, end = threading.Event(), threading.Event()

    def change() -> None:
        with gate.exclusive("a.txt"):
            begun.set()
            end.wait(SECONDS)
            (tmp_path / "a.txt").write_text("of an agent")

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    begun.wait(SECONDS)
    save = asyncio.create_task(manager.save({**TEXT, "content": "of a person"}, "a.txt"))
    await asyncio.sleep(0)  # the save begins to wait
    assert not save.done()
    end.set()
    await save
    assert (tmp_path / "a.txt").read_text() == "of a person"


class DecoratedManager(AsyncLargeFileManager):
    """A manager whose `save` is a function that returns a coroutine."""

    def save(self, model: dict[str, Any], path: str = "") -> Any:
        return super().save(model, path)


async def test_a_function_that_returns_a_coroutine_registers_while_that_runs(
    gate: RecordingGate, tmp_path: Path
) -> None:
    manager = DecoratedManager(root_dir=str(tmp_path))
    attach_save_gate(manager, gate)
    saving = manager.save(dict(TEXT), "a.txt")
    assert gate.is_idle
    gate.registered.clear()
    await saving
    assert gate.registered == {"a.txt"} and gate.is_idle


async def test_every_file_of_a_paired_save_is_registered(gate: RecordingGate, tmp_path: Path) -> None:
    manager = PairedManager(root_dir=str(tmp_path))
    attach_save_gate(manager, gate)
    manager.save(dict(TEXT), "a.txt")
    assert gate.registered == {"a.txt", "a.txt.pair"}


async def test_a_manager_has_its_own_methods_again_when_the_gate_is_detached(tmp_path: Path) -> None:
    first, second = RecordingGate(str(tmp_path)), RecordingGate(str(tmp_path))
    manager = LargeFileManager(root_dir=str(tmp_path))
    detach_first = attach_save_gate(manager, first)
    detach_second = attach_save_gate(manager, second)
    detach_first()  # its methods are below those of the second
    manager.save(dict(TEXT), "a.txt")
    assert (first.registered, second.registered) == (set(), {"a.txt"})
    detach_second()
    manager.save(dict(TEXT), "b.txt")
    assert second.registered == {"a.txt"}
    detach = attach_save_gate(LargeFileManager(root_dir=str(tmp_path)), first)
    detach()
    detach()


def test_a_manager_without_a_folder_stays_as_it_is(gate: RecordingGate) -> None:
    manager = ContentsManager()
    before = dict(vars(manager))
    attach_save_gate(manager, gate)()
    assert vars(manager) == before


class SlowManager(AsyncLargeFileManager):
    """A manager that stops in the middle of a save, when the file is half."""

    half = asyncio.Event()
    go_on = asyncio.Event()

    async def _save_file(self, os_path: str, content: str, format: str) -> None:
        with self.atomic_writing(os_path, text=False) as file:
            file.write(content[:2].encode())
            file.flush()
            self.half.set()
            await self.go_on.wait()
            file.write(content[2:].encode())


async def test_a_section_waits_for_the_end_of_a_save_that_awaits(tmp_path: Path) -> None:
    gate = SaveGate(str(tmp_path), timeout=SECONDS)
    manager = SlowManager(root_dir=str(tmp_path))
    attach_save_gate(manager, gate)
    manager.half, manager.go_on = asyncio.Event(), asyncio.Event()
    path, other = tmp_path / "a.txt", tmp_path / "other"
    path.write_text("old")
    other.write_text("of an agent")
    found: list[str] = []
    begun = threading.Event()

    def change() -> None:
        begun.set()
        with gate.exclusive("a.txt"):
            found.append(path.read_text())
            os.replace(other, path)

    save = asyncio.create_task(manager.save({**TEXT, "content": "of a person"}, "a.txt"))
    await manager.half.wait()
    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    begun.wait(SECONDS)
    manager.go_on.set()
    await save
    thread.join(SECONDS)
    assert found == ["of a person"] and path.read_text() == "of an agent"


async def test_a_save_that_is_cancelled_is_unregistered(gate: RecordingGate, tmp_path: Path) -> None:
    manager = SlowManager(root_dir=str(tmp_path))
    attach_save_gate(manager, gate)
    manager.half, manager.go_on = asyncio.Event(), asyncio.Event()
    (tmp_path / "a.txt").write_text("old")
    save = asyncio.create_task(manager.save(dict(TEXT), "a.txt"))
    await manager.half.wait()
    assert not gate.is_idle
    save.cancel()
    await asyncio.wait([save])
    assert gate.is_idle and (tmp_path / "a.txt").read_text() == "old"
    never_begun = asyncio.create_task(manager.save(dict(TEXT), "a.txt"))
    never_begun.cancel()
    await asyncio.wait([never_begun])
    assert gate.is_idle


Put = Callable[[str, str], Awaitable[int]]


@pytest.fixture
def put(jp_fetch: Any) -> Put:
    """Save a text file as JupyterLab does."""

    async def put(path: str, content: str) -> int:
        body = json.dumps({**TEXT, "content": content})
        response = await jp_fetch("api", "contents", path, method="PUT", body=body, raise_error=False)
        status: int = response.code
        return status

    return put


@pytest.fixture(params=["LargeFileManager", "AsyncLargeFileManager"])
def manager_class(request: pytest.FixtureRequest, jp_server_config: dict[str, Any]) -> None:
    name = f"jupyter_server.services.contents.largefilemanager.{request.param}"
    jp_server_config["ServerApp"]["contents_manager_class"] = name


@pytest.mark.usefixtures("manager_class")
@pytest.mark.filterwarnings("ignore:The synchronous ContentsManager classes are deprecated")
async def test_a_save_over_http_waits_for_a_section_and_comes_after_it(
    jp_serverapp: Any, extension: WapExtension, put: Put, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert extension.workspace is not None
    gate = extension.workspace.save_gate
    path, other = jp_root_dir / "a.txt", jp_root_dir / "other"
    path.write_text("old")
    other.write_text("of an agent")
    entered, arrived = threading.Event(), threading.Event()
    begin_save = gate.begin_save

    def announce(*paths: str, **more: Any) -> int:
        arrived.set()
        return begin_save(*paths, **more)

    monkeypatch.setattr(gate, "begin_save", announce)
    found: list[str] = []

    def change() -> None:
        with gate.exclusive("a.txt"):
            entered.set()
            arrived.wait(SECONDS)
            found.append(path.read_text())
            os.replace(other, path)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    await until(entered.is_set)
    assert await put("a.txt", "of a person") == 200
    thread.join(SECONDS)
    assert found == ["old"] and path.read_text() == "of a person"


async def test_the_gate_is_detached_when_the_extension_stops(
    extension: WapExtension, put: Put, jp_serverapp: Any, jp_root_dir: Path
) -> None:
    assert await put("a.txt", "x") == 201
    assert "save" in vars(jp_serverapp.contents_manager)
    await extension.stop_extension()
    assert "save" not in vars(jp_serverapp.contents_manager)
    assert await put("a.txt", "y") == 200


@pytest.fixture
def replaced_manager(jp_server_config: dict[str, Any]) -> None:
    jp_server_config["ServerApp"]["jpserver_extensions"]["tests.support.replaced_manager"] = True


@pytest.mark.usefixtures("replaced_manager")
async def test_a_manager_that_an_extension_replaces_later_is_gated(
    jp_serverapp: Any, extension: WapExtension, put: Put, jp_root_dir: Path
) -> None:
    assert isinstance(jp_serverapp.contents_manager, PairedManager)
    assert await put("a.txt", "x") == 201
    assert (jp_root_dir / "a.txt.pair").read_text() == "x"
    assert "save" in vars(jp_serverapp.contents_manager)


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "write": ("writeFile", {"content": "x"}),
    "append": ("writeFile", {"content": "x", "mode": "append"}),
    "modify": ("modifyFile", {"operations": [{"type": "replace", "startLine": 1, "endLine": 1, "newContent": "x"}]}),
    "delete": ("deleteFile", {}),
    "move": ("moveFile", {"source": "a.txt", "destination": "b.txt"}),
    "move to": ("moveFile", {"source": "other.txt", "destination": "a.txt", "overwrite": True}),
    "copy to": ("copyFile", {"source": "other.txt", "destination": "a.txt", "overwrite": True}),
    "delete its folder": ("deleteFile", {"path": "folder", "recursive": True}),
}


@pytest.mark.parametrize(
    "undo",
    [
        pytest.param(True, marks=pytest.mark.wap_settings(undo=True)),
        pytest.param(False, marks=pytest.mark.wap_settings(undo=False)),
    ],
)
@pytest.mark.parametrize("change", CHANGES)
async def test_a_tool_changes_no_file_while_it_is_saved(
    extension: WapExtension, call: Any, jp_root_dir: Path, change: str, undo: bool
) -> None:
    assert extension.workspace is not None
    gate = extension.workspace.save_gate
    gate.timeout = 0
    (jp_root_dir / "folder").mkdir()
    names = ("a.txt", "other.txt", "folder/b.txt")
    for name in names:
        (jp_root_dir / name).write_text("old\n")
    tool, parameters = CHANGES[change]
    parameters = parameters if {"source", "path"} & parameters.keys() else {"path": "a.txt", **parameters}
    with gate.saving("a.txt", "folder/b.txt"):
        refused = await call(tool, **parameters)
        assert (refused.status, refused.code) == (409, "CONFLICT")
        assert [(jp_root_dir / name).read_text() for name in names] == ["old\n"] * 3
    assert (await call(tool, **parameters)).status == 200


async def test_a_batch_replaces_no_file_while_it_is_saved(
    extension: WapExtension, fetch: Any, jp_root_dir: Path
) -> None:
    assert extension.workspace is not None
    gate = extension.workspace.save_gate
    gate.timeout = 0
    names = [f"{number}.txt" for number in range(3)]
    for name in names:
        (jp_root_dir / name).write_text("old")
    with gate.saving("1.txt"):
        message = (await start(fetch, *(create(name, "new", overwrite=True) for name in names))).body
    assert [event["success"] for event in message["events"]] == [True, False, True]
    assert [(jp_root_dir / name).read_text() for name in names] == ["new", "old", "new"]
