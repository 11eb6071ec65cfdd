"""An approval holds for what it showed: the real path and its content, once, by the first decision."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, types
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import Conflict, InvalidArgument, PermissionDenied
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs.decisions import Decision

CONFIRMED = merge_policy(
    presets.load_preset("permissive"), {"confirmationRequired": ["writeFile", "deleteFile", "readFile"]}
)
DELETION_CONFIRMED = merge_policy(presets.load_preset("permissive"), {"confirmationRequired": ["deleteFile"]})
DELETION = {"type": "deleteFile", "id": "delete", "path": "data/x.txt"}


def link(place: Path, target: str) -> None:
    if place.is_dir() and not place.is_symlink():
        place.rename(place.with_name(f"{place.name}-moved"))
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(target)


WRITE = {"type": "createFile", "id": "w", "path": "l.txt", "content": "new", "overwrite": True}
SWAPS = {
    "a file for a link to one with the same content": (WRITE, lambda ws: link(ws / "l.txt", "important.txt")),
    "a folder for a link, and a new file in it": (
        {**WRITE, "path": "folder/new.txt"},
        lambda ws: link(ws / "folder", "other"),
    ),
    "a folder for a link, and a file in it to delete": (
        {"type": "deleteFile", "id": "w", "path": "folder/f"},
        lambda ws: link(ws / "folder", "other"),
    ),
    "the content": (WRITE, lambda ws: (ws / "l.txt").write_text("mine")),
}


@pytest.mark.parametrize("name", SWAPS)
def test_what_was_swapped_since_it_was_shown_is_asked_about_again(scene: Scene, name: str) -> None:
    operation, swap = SWAPS[name]
    scene.options["policy"] = CONFIRMED
    for folder in ("folder", "other"):
        (scene.root / folder).mkdir()
        (scene.root / folder / "f").write_text("same")
    for file in ("l.txt", "important.txt"):
        (scene.root / file).write_text("same")

    async def scenario(scene: Scene) -> None:
        message = await scene.run(operation)
        swap(scene.root)
        before = scene.tree()
        with pytest.raises(Conflict, match="Changed since it was shown"):
            await scene.decide(message["runId"], True, operation_id="w")
        assert scene.tree() == before
        again = await scene.message(await scene.runner.get(message["runId"], PERSON))
        assert again["status"] == "awaiting_approval"

    play(scene, scenario)


@pytest.mark.parametrize(
    "change",
    [
        lambda ws: (ws / "data" / "more.txt").write_text("added"),
        lambda ws: link(ws / "data", "other"),
    ],
    ids=["something added to the folder", "the folder is another"],
)
def test_a_folder_is_shown_with_what_is_in_it(scene: Scene, change: Any) -> None:
    scene.options["policy"] = CONFIRMED
    (scene.root / "other").mkdir()

    async def scenario(scene: Scene) -> None:
        from wap_kernel.dialects.wap import tools as wap
        from wap_kernel.model.errors import ApprovalRequired

        with pytest.raises(ApprovalRequired) as asked:
            await wap.call_tool("deleteFile", b'{"path": "data", "recursive": true}', scene.runner, PERSON)
        change(scene.root)
        with pytest.raises(Conflict):
            await scene.decide(asked.value.details["runId"], True, approval_id=asked.value.details["approvalId"])
        assert (scene.root / "data").exists()

    play(scene, scenario)


def test_the_folder_and_the_script_of_a_command_are_what_was_shown(scene: Scene) -> None:
    for folder in ("w1", "w2"):
        (scene.root / folder).mkdir()
    (scene.root / "deploy.sh").write_text("echo harmless\n")

    async def scenario(scene: Scene) -> None:
        moved = await scene.run({"type": "shell", "id": "delete", "command": "rm -rf x", "cwd": "w1"})
        link(scene.root / "w1", "w2")
        with pytest.raises(Conflict):
            await scene.decide(moved["runId"], True)
        swapped = await scene.run({"type": "shell", "id": "delete", "command": "rm -rf x; bash deploy.sh"})
        (scene.root / "deploy.sh").write_text("echo pwned > pwned\n")
        with pytest.raises(Conflict):
            await scene.decide(swapped["runId"], True)
        assert not (scene.root / "pwned").exists()

    play(scene, scenario)


def test_a_swap_between_the_decision_and_the_operation_asks_again(scene: Scene) -> None:
    scene.options["policy"] = CONFIRMED

    async def scenario(scene: Scene) -> None:
        message = await scene.run(WRITE)
        run = await scene.runner.decide(message["runId"], Decision(True, operation_id="w"), PERSON)
        (scene.root / "l.txt").symlink_to("important.txt")  # before the task of the run has had its turn
        message = await scene.message(await scene.runner.wait(run.id, 30))
        assert types(message)[:2] in (["approvalRequired", "approvalRequired"], ["approvalRequired", "createFile"])
        assert not (scene.root / "important.txt").exists()

    play(scene, scenario)


def test_what_cannot_be_granted_is_not_remembered(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE)
        with pytest.raises(InvalidArgument, match="for good"):
            await scene.decide(message["runId"], True, operation_id="delete", remember=True)
        assert (await scene.runner.get(message["runId"], PERSON)).status is RunStatus.AWAITING_APPROVAL

    play(scene, scenario)


# -- who is first


@pytest.mark.parametrize("loser", ["deny", "cancel"])
def test_whoever_loses_against_an_approval_undoes_nothing(scene: Scene, loser: str) -> None:
    scene.options["policy"] = DELETION_CONFIRMED

    async def race(scene: Scene) -> tuple[str, str]:
        (scene.root / "data" / "x.txt").write_text("x")
        message = await scene.run(create("a", overwrite=True), DELETION, create("z", overwrite=True), atomic=True)
        run_id = message["runId"]
        approve = scene.runner.decide(run_id, Decision(True, operation_id="delete"), PERSON)
        if loser == "deny":
            other: Any = scene.runner.decide(run_id, Decision(False, operation_id="delete"), PERSON)
        else:
            other = scene.runner.cancel(run_id, PERSON)
        answers = await asyncio.gather(other, approve, return_exceptions=True)
        assert all(isinstance(answer, Run | Conflict) for answer in answers)
        status = (await scene.runner.wait(run_id, 30)).status.value
        files = "".join(name for name in "az" if (scene.root / name).exists())
        for name in "az":
            (scene.root / name).unlink(missing_ok=True)
        return status, files

    async def scenario(scene: Scene) -> None:
        for _ in range(10):
            status, files = await race(scene)
            assert files == ("az" if status == "completed" else ""), status

    play(scene, scenario)


# -- what an agent is not told


def test_a_dry_run_reads_nothing_that_asks(scene: Scene) -> None:
    scene.options["policy"] = CONFIRMED
    agent = Caller(token="t")

    async def scenario(scene: Scene) -> None:
        message = await scene.run({"type": "readFile", "path": "data/x.txt"}, caller=agent, dryRun=True)
        (event,) = message["events"]
        assert (event["type"], event["simulated"]) == ("approvalRequired", False)
        assert "content" not in event

    play(scene, scenario)


def test_whoever_may_not_read_gets_no_diffs(scene: Scene) -> None:
    scene.options["policy"] = merge_policy(presets.load_preset("permissive"), {"confirmationRequired": ["modifyFile"]})
    (scene.root / "secret.txt").write_text("SECRET\n")
    agent = Caller(token="t", scope=Scope(tools=frozenset({"writeFile", "modifyFile"})))
    edit = {"type": "editFile", "path": "secret.txt", "edits": [{"oldContent": "S", "newContent": "s"}]}
    overwrite = create("secret.txt", overwrite=True)

    async def scenario(scene: Scene) -> None:
        dry = await scene.run(overwrite, caller=agent, dryRun=True)
        asked = await scene.run(edit, caller=agent)
        run = await scene.runner.get(asked["runId"], agent)
        told = await scene.runner.message(run, agent)
        written = await scene.run(overwrite, caller=agent)
        changes = await scene.runner.changes(written["runId"], agent)
        for answer in (dry["events"], told, changes):
            assert "SECRET" not in str(answer)
        assert "SECRET" in str(asked["pendingApproval"]), "a person sees it"

    play(scene, scenario)


def test_an_agent_cannot_force_a_revert(scene: Scene) -> None:
    agent = Caller(token="t")

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a"), caller=agent)
        with pytest.raises(PermissionDenied, match="person"):
            await scene.runner.revert(message["runId"], agent, force=True)

    play(scene, scenario)


def test_what_was_agreed_to_once_is_not_done_again_by_a_revert_of_its_revert(scene: Scene) -> None:
    agent = Caller(agent="an agent", token="t1")

    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE, caller=agent)
        assert (await scene.decide(message["runId"], True))["status"] == "completed"
        assert "data/x.txt" not in scene.tree()
        undone = await scene.runner.revert(message["runId"], agent)
        assert (await scene.runner.wait(undone.id, WAIT)).status is RunStatus.COMPLETED
        assert "data/x.txt" in scene.tree()
        with pytest.raises(PermissionDenied, match="Only a person"):
            await scene.runner.revert(undone.id, agent)
        assert "data/x.txt" in scene.tree()
        redone = await scene.runner.revert(undone.id, PERSON)
        assert (await scene.runner.wait(redone.id, WAIT)).status is RunStatus.COMPLETED
        assert "data/x.txt" not in scene.tree()

    scene.options["provider"] = "bubblewrap"
    play(scene, scenario)


def test_a_revert_is_a_write_that_is_asked_about_and_shown(scene: Scene) -> None:
    """Also of an agent, whose run was made before anybody wanted to confirm writes."""
    agent = Caller(agent="an agent", token="t1")
    edit = {"type": "editFile", "path": "data/x.txt", "edits": [{"oldContent": "x", "newContent": "y"}]}

    async def before(scene: Scene) -> None:
        message = await scene.run(edit, create("made.txt", "made"), create("late.txt"), caller=agent)
        scene.options["run"] = message["runId"]

    play(scene, before)
    run_id = scene.options.pop("run")
    scene.options["policy"] = CONFIRMED

    async def scenario(scene: Scene) -> None:
        there = scene.tree()
        reverting = await scene.runner.revert(run_id, agent)
        asked = await scene.message(await scene.runner.wait(reverting.id, WAIT))
        assert (asked["status"], scene.tree()) == ("awaiting_approval", there)
        pending = asked["pendingApproval"]
        assert pending["rule"] == "confirmationRequired"
        assert "remember" not in pending
        assert all(line in pending["diff"].splitlines() for line in ("-y", "+x", "-made"))
        told = await scene.runner.message(await scene.runner.get(reverting.id, agent), agent)
        assert "diff" not in told["pendingApproval"] and "-made" not in str(told), "it could not read it unasked"
        for said in ("data/x.txt (as it was)", "made.txt (removed)", run_id):
            assert said in pending["note"]
        late = scene.root / "late.txt"
        as_it_was = late.stat().st_mtime_ns
        for content in ("changed since", "new"):
            late.write_text(content)
            if content == "new":  # as if nobody had changed it
                os.utime(late, ns=(as_it_was, as_it_was))
            with pytest.raises(Conflict, match=f"Changed since it was shown: what {run_id} changed"):
                await scene.decide(reverting.id, True, operation_id="revert")
            asked = await scene.message(await scene.runner.get(reverting.id, PERSON))
            refused = (
                "As things stand it will be refused. Changed since the run: late.txt."
                in asked["pendingApproval"]["note"]
            )
            assert refused == (content == "changed since")
        with pytest.raises(PermissionDenied, match="person"):
            await scene.decide(reverting.id, True, caller=agent, operation_id="revert")
        assert scene.tree() == there
        assert (await scene.decide(reverting.id, True, operation_id="revert"))["status"] == "completed"
        assert scene.tree() == {"data": None, "data/x.txt": "x"}

    play(scene, scenario)
