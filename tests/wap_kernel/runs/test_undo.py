"""Dry runs, and runs that are reverted."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, types
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.coding_environment import tool_call as coding_call
from wap_kernel.dialects.tool_interface import tool_call as interface_call
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.files import filesystem_type
from wap_kernel.model.errors import Conflict, InvalidArgument, PermissionDenied
from wap_kernel.model.limits import MAX_COPIED_FILE_BYTES
from wap_kernel.model.run import RunStatus
from wap_kernel.policy import presets
from wap_kernel.runs.runner import Runner
from wap_kernel.state.audit.query import AuditQuery

# -- dry runs


@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_a_dry_run_shows_what_would_happen_and_changes_nothing(scene: Scene, provider: str) -> None:
    before = scene.tree()
    scene.options["provider"] = provider
    has_layers = provider == "bubblewrap"

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "a", "edits": [{"oldContent": "new", "newContent": "newer"}]}
        sudo = {"type": "shell", "command": "sudo id"}
        read = {"type": "readFile", "path": "a"}
        commands = (DELETE, sudo) if has_layers else ()
        message = await scene.run(create("a"), edit, read, create("a"), *commands, dryRun=True)
        assert (message["status"], message["dryRun"]) == ("completed", True)
        created, edited, found, exists, *ran = message["events"]
        assert (created["success"], created["simulated"], created["verdict"]) == (True, True, "allow")
        assert "+new" in created["diff"]
        assert "+newer" in edited["diff"]
        assert found["content"] == "newer"
        assert (exists["error"], exists["simulated"], exists["verdict"]) == ("File already exists", True, "allow")
        assert exists["rule"]
        if has_layers:
            deleted, denied = ran
            assert (deleted["exitCode"], deleted["simulated"], deleted["verdict"]) == (0, True, "ask")
            assert (denied["type"], denied["simulated"], denied["verdict"]) == ("policyDenied", True, "deny")
            assert denied["rule"]
        with pytest.raises(InvalidArgument):
            await scene.runner.revert(message["runId"], PERSON)
        assert (await scene.runner.changes(message["runId"], PERSON))["changes"] == []

    play(scene, scenario)
    assert scene.tree() == before


def test_a_dry_run_runs_nothing_that_is_asked_about_before_it_runs(scene: Scene) -> None:
    scene.options = {"policy": presets.load_preset("standard"), "provider": "bubblewrap"}

    async def scenario(scene: Scene) -> None:
        networked = {"type": "shell", "command": "echo ran > ran; pip install numpy"}
        read = {"type": "readFile", "path": "ran"}
        asked, missing = (await scene.run(networked, read, dryRun=True))["events"]
        assert (asked["type"], asked["simulated"], asked["verdict"]) == ("approvalRequired", False, "ask")
        assert missing["success"] is False

    play(scene, scenario)


def test_what_is_not_let_in_is_simulated_too(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        body = {"protocolVersion": "1.0", "operations": [create("a", id="one"), create("b")], "dryRun": True}
        message = agent_spaces.parse_message(json.dumps(body).encode())
        refused = {"one": PermissionDenied("This token does not open writeFile.")}
        run = await scene.runner.start(
            message.steps(), message.options(), PERSON, dialect="agent_spaces", refused=refused
        )
        denied, created = (await scene.message(await scene.runner.wait(run.id, WAIT)))["events"]
        assert (denied["type"], denied["simulated"], denied["verdict"]) == ("policyDenied", True, "deny")
        assert (created["success"], created["simulated"]) == (True, True)

    play(scene, scenario)


def test_an_atomic_dry_run_that_fails_undid_nothing(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        missing = {"type": "readFile", "path": "missing"}
        message = await scene.run(create("a"), missing, create("b"), atomic=True, dryRun=True)
        assert (message["status"], types(message)) == ("error", ["createFile", "readFile", "error"])
        said = "An operation failed, so everything would have been undone. This was a dry run: nothing was changed."
        assert message["events"][-1]["message"] == said
        page = await scene.runner.workspace.audit_page(AuditQuery(limit=10))
        assert [record["tool"] for record in page["records"]] == ["readFile", "createFile"]

    play(scene, scenario)
    assert scene.tree() == before


# -- undo


def test_a_revert_is_a_run_that_can_be_reverted(scene: Scene) -> None:
    before = scene.tree()
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), DELETE)
        message = await scene.decide(message["runId"], True)
        after = scene.tree()
        changes = await scene.runner.changes(message["runId"], PERSON)
        assert {change["path"]: change["change"] for change in changes["changes"]} == {
            "a": "created",
            "data": "folder deleted",
            "data/x.txt": "deleted",
        }
        undone = await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)
        assert (undone.status, undone.reverts) == (RunStatus.COMPLETED, message["runId"])
        assert scene.tree() == before
        redone = await scene.runner.wait((await scene.runner.revert(undone.id, PERSON)).id, WAIT)
        assert redone.status is RunStatus.COMPLETED
        assert scene.tree() == after

    play(scene, scenario)


def test_what_cannot_be_undone_is_asked_about_and_lost_only_with_a_yes(scene: Scene) -> None:
    """The store is on another filesystem, so that it takes copies, and no large ones."""
    elsewhere = Path(tempfile.mkdtemp(prefix="wap-undo-", dir="/dev/shm"))
    scene.state = elsewhere
    scene.options = {"policy": presets.load_preset("standard"), "provider": "bubblewrap"}
    scene.root.joinpath("big").write_bytes(b"\0" * (MAX_COPIED_FILE_BYTES + 1))

    async def scenario(scene: Scene) -> None:
        delete = {"type": "shell", "id": "delete", "command": "rm big; echo x > small"}
        asked = await scene.run(delete)
        assert asked["pendingApproval"]["rule"] == "effects.unkept"
        assert (scene.root / "big").exists() and not (scene.root / "small").exists()
        (_, event) = (await scene.decide(asked["runId"], True))["events"]
        assert event["exitCode"] == 0
        assert (scene.root / "small").exists() and not (scene.root / "big").exists()
        with pytest.raises(Conflict) as refused:
            await scene.runner.revert(asked["runId"], PERSON)
        assert refused.value.details["paths"] == ["big"]
        reverting = await scene.runner.revert(asked["runId"], PERSON, force=True)
        assert (await scene.runner.wait(reverting.id, WAIT)).status is RunStatus.COMPLETED
        assert not (scene.root / "small").exists()

    try:
        play(scene, scenario)
    finally:
        shutil.rmtree(elsewhere)


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("before", [(), ({"type": "shell", "command": "true"},)], ids=["alone", "after a command"])
def test_an_atomic_run_asks_about_what_its_file_operations_lose(
    scene: Scene, before: tuple[dict[str, str], ...], approved: bool
) -> None:
    elsewhere = Path(tempfile.mkdtemp(prefix="wap-undo-", dir="/dev/shm"))
    scene.state = elsewhere
    scene.options = {"policy": presets.load_preset("standard"), "provider": "bubblewrap"}
    scene.root.joinpath("big").write_bytes(b"\0" * (MAX_COPIED_FILE_BYTES + 1))

    async def scenario(scene: Scene) -> None:
        asked = await scene.run(
            *before, create("small"), {"type": "deleteFile", "id": "delete", "path": "big"}, atomic=True
        )
        assert (asked["status"], asked["pendingApproval"]["rule"]) == ("awaiting_approval", "effects.unkept"), asked
        assert (scene.root / "big").exists() and not (scene.root / "small").exists()
        ended = await scene.decide(asked["runId"], approved)
        assert ended["status"] == ("completed" if approved else "error")
        assert (scene.root / "small").exists() is approved
        assert (scene.root / "big").exists() is not approved

    try:
        play(scene, scenario)
    finally:
        shutil.rmtree(elsewhere)


def test_to_apply_what_loses_for_good_is_asked_about(scene: Scene) -> None:
    elsewhere = Path(tempfile.mkdtemp(prefix="wap-undo-", dir="/dev/shm"))
    scene.state = elsewhere
    scene.options = {"policy": presets.load_preset("standard"), "provider": "bubblewrap"}
    scene.root.joinpath("big").write_bytes(b"\0" * (MAX_COPIED_FILE_BYTES + 1))

    async def scenario(scene: Scene) -> None:
        asked = await scene.run({"type": "shell", "command": "rm big; echo x > small"}, atomic=True)
        cancelled = await scene.runner.cancel(asked["runId"], PERSON)
        assert cancelled.status is RunStatus.CANCELLED and (scene.root / "big").exists()
        small = await scene.runner.apply(cancelled.id, ["small"], PERSON)
        assert (await scene.runner.wait(small.id, WAIT)).status is RunStatus.COMPLETED
        assert (scene.root / "small").exists() and (scene.root / "big").exists()
        rest = await scene.runner.apply(cancelled.id, None, PERSON)
        message = await scene.message(await scene.runner.wait(rest.id, WAIT))
        assert message["pendingApproval"]["rule"] == "effects.unkept", message
        assert (scene.root / "big").exists()
        approval = message["pendingApproval"]["approvalId"]
        assert (await scene.decide(rest.id, True, approval_id=approval))["status"] == "completed"
        assert not (scene.root / "big").exists()

    try:
        play(scene, scenario)
    finally:
        shutil.rmtree(elsewhere)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_revert_on_a_full_disk_is_no_success(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered `completed`, `success: true`, `restored: []`."""
    before = scene.tree()
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), {"type": "shell", "command": "rm data/x.txt; echo y > data/y"})
        after = scene.tree()
        with monkeypatch.context() as patch:
            patch.setattr(scene.runner.workspace.history, "step", full_disk)
            failed = await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)
        (event,) = (await scene.message(failed))["events"]
        assert (event["success"], event["code"]) == (False, "NO_SPACE"), event
        assert "restored" not in event and scene.tree() == after
        again = await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)
        assert (await scene.message(again))["events"][0]["success"] is True
        assert scene.tree() == before

    play(scene, scenario)


@pytest.mark.parametrize("name", ["json.dump", "read_changes"], ids=["notes", "changes"])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_full_disk_while_a_layer_is_read_and_judged_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str, atomic: bool
) -> None:
    before = scene.tree()
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(f"wap_kernel.providers.layers.layer.{name}", full_disk)
            message = await scene.run(DELETE, atomic=atomic)
        assert "NO_SPACE" in json.dumps(message) and "pendingApproval" not in message, message
        assert scene.tree() == before
        assert (await scene.run(DELETE, atomic=atomic))["status"] == "awaiting_approval"

    play(scene, scenario)
    assert scene.tree() == before


def test_a_revert_that_would_lose_a_later_change_is_refused_unless_forced(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), create("b"))
        (scene.root / "a").write_text("later")
        with pytest.raises(Conflict) as refused:
            await scene.runner.revert(message["runId"], PERSON)
        assert refused.value.details["paths"] == ["a"]
        assert (scene.root / "b").exists()
        await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON, force=True)).id, WAIT)
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario)


def test_all_of_it_on_a_network_filesystem(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite's shared log is not possible; what the probe answers there is simulated."""
    scene.options["provider"] = "bubblewrap"
    monkeypatch.setattr(filesystem_type, "is_network_filesystem", lambda _: True)

    async def asks(scene: Scene) -> None:
        database = scene.runner.workspace.database
        assert database.read(lambda one: one.execute("PRAGMA journal_mode").fetchone()) == ("delete",)
        message = await scene.run(create("a"), DELETE, create("b"))
        assert message["status"] == "awaiting_approval"

    async def goes_on(scene: Scene) -> None:
        (waiting,), _ = await scene.runner.page(PERSON, RunStatus.AWAITING_APPROVAL, 10, None)
        others = [asyncio.ensure_future(scene.run(create(f"other-{number}"))) for number in range(8)]
        decided = await scene.decide(waiting.id, True)
        assert decided["status"] == "completed"
        assert {message["status"] for message in await asyncio.gather(*others)} == {"completed"}
        before = {"data": None, "data/x.txt": "x", **{f"other-{number}": "new" for number in range(8)}}
        undone = await scene.runner.revert(waiting.id, PERSON)
        assert (await scene.runner.wait(undone.id, WAIT)).status is RunStatus.COMPLETED
        assert scene.tree() == before

    play(scene, asks)
    play(scene, goes_on)


def test_undo_can_be_switched_off(scene: Scene) -> None:
    scene.options["undo"] = False

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"))
        for question in (scene.runner.revert, scene.runner.changes):
            with pytest.raises(InvalidArgument, match="switched off"):
                await question(message["runId"], PERSON)

    play(scene, scenario)


# -- single calls beside it

CALLS: dict[str, Callable[[Runner], Awaitable[object]]] = {
    "wap": lambda runner: wap.call_tool("writeFile", b'{"path": "data/x.txt", "content": "theirs"}', runner, PERSON),
    "tool_interface": lambda runner: interface_call.call_tool(
        "write", b'{"file_path": "data/x.txt", "content": "theirs"}', runner, PERSON
    ),
    "coding_environment": lambda runner: coding_call.call_tool(
        "writeFile", {"path": "data/x.txt", "contents": "theirs"}, runner, PERSON
    ),
}


@pytest.mark.parametrize("dialect", sorted(CALLS))
@pytest.mark.parametrize("is_atomic", [False, True])
def test_what_a_single_call_wrote_while_a_command_ran_is_left(scene: Scene, dialect: str, is_atomic: bool) -> None:
    """By the undo of the command, whichever process the call went to; and it is a run of its own."""
    scene.options["provider"] = "bubblewrap"
    (scene.root / "go").write_text("")
    waits = "echo own > own; echo begun; while [ ! -s go ]; do sleep 0.02; done; exit 3"

    async def scenario() -> None:
        neighbour = Scene(scene.root, scene.state, provider="bubblewrap")
        async with scene.opened(), neighbour.opened():
            run = await scene.start({"type": "shell", "command": waits}, atomic=is_atomic)
            async for event in scene.runner.stream_events(run.id, None, PERSON):
                if event.name == "output":
                    break
            await CALLS[dialect](neighbour.runner)
            (scene.root / "go").write_text("now")
            await scene.runner.wait(run.id, WAIT)
            assert (scene.root / "own").exists() is not is_atomic
            if not is_atomic:
                reverting = await scene.runner.revert(run.id, PERSON)
                assert (await scene.runner.wait(reverting.id, WAIT)).status is RunStatus.COMPLETED
            assert scene.tree() == {"data": None, "data/x.txt": "theirs", "go": "now"}
            listed, _ = await scene.runner.page(PERSON, None, 10, None)
            calls = [each for each in listed if each.options.call is not None]
            assert (len(calls), len(listed)) == (1, 2 if is_atomic else 3)
            reverting = await scene.runner.revert(calls[0].id, PERSON)
            assert (await scene.runner.wait(reverting.id, WAIT)).status is RunStatus.COMPLETED
            assert (scene.root / "data" / "x.txt").read_text() == "x"

    asyncio.run(scenario())
