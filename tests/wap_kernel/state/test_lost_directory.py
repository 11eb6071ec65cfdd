"""The state folder is moved or removed under a living workspace, or was never usable: nothing acts unrecorded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy
from wap_kernel.state import schema
from wap_kernel.state.directory import open_state_dir
from wap_kernel.state.leases import Lease
from wap_kernel.state.path_locks import PathLocks

CHANGING: dict[str, dict[str, Any]] = {
    "writeFile": {"path": "new", "content": "x"},
    "modifyFile": {"path": "kept", "operations": [{"type": "insert", "afterLine": 0, "newContent": "x"}]},
    "deleteFile": {"path": "kept"},
    "executeCommand": {"command": "touch made"},
}
OPEN = merge_policy(presets.load_preset("permissive"), {"shell": {"unconfined": "allow"}})


@pytest.mark.parametrize("become", ["removed", "moved"])
def test_without_its_state_nothing_changes_and_closing_goes_on(make_tools: Callable[..., Any], become: str) -> None:
    tools = make_tools(policy=OPEN, provider="local")
    (tools.root / "kept").write_text("k")
    aside = tools.state.with_name("aside")
    shutil.move(tools.state, aside)
    if become == "removed":
        shutil.rmtree(aside)
    for tool, parameters in CHANGING.items():
        refused = tools.refuse(tool, **parameters)
        assert (refused.code, "nothing was changed" in refused.text) == (Code.PROVIDER_UNAVAILABLE, True), tool
    assert [(path.name, path.read_text()) for path in tools.root.iterdir()] == [("kept", "k")]
    assert not tools.state.exists(), "a state that begins anew by itself would hide that the old one is gone"
    if become == "moved":
        shutil.move(aside, tools.state)
        for tool, parameters in CHANGING.items():
            tools.call(tool, **parameters)
    asyncio.run(tools.workspace.close())


def test_locks_and_notes_tell_of_the_state_and_not_of_the_callers_files(tmp_path: Path) -> None:
    state = open_state_dir(str(tmp_path / "state"))
    lease, locks = Lease(state, "ws"), PathLocks(state)
    lease.note(".wap-1.tmp", "a/.wap-1.tmp")
    shutil.rmtree(state)
    with pytest.raises(ProviderUnavailable, match="state folder"), locks.hold("a/file"):
        pytest.fail("nobody else can see this lock")
    with pytest.raises(ProviderUnavailable, match="state folder"):
        lease.note(".wap-2.tmp", "a/.wap-2.tmp")
    lease.forget(".wap-1.tmp")  # the file has its place: that was no failure
    lease.close()


@pytest.mark.parametrize("prepare", [open_state_dir, lambda path: Lease(path, "ws")], ids=["folder", "lease"])
def test_a_folder_that_cannot_be_made_is_refused_without_the_hosts_paths(
    tmp_path: Path, prepare: Callable[[str], object]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProviderUnavailable, match="state folder") as caught:
        prepare(str(tmp_path / "file" / "state"))
    assert str(tmp_path) not in caught.value.text
    assert "WapExtension.state_dir" in caught.value.text


def test_nobody_is_told_to_give_up_a_database_that_only_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(WapError, match="unable to open") as caught:
            schema.connect(str(folder))
        assert "begin anew" not in caught.value.text
        assert "writable" in caught.value.text
