"""Commands in runs: each works on a layer, and its effect is judged, shown, applied or discarded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import DELETE, PERSON, WAIT, Scene, create, play, types, until
from wap_kernel.dialects.wap import tools
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, Conflict, InvalidArgument, PermissionDenied
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs import recovery

AGENT = Caller(user="ada", agent="helper", token="tok_1")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data" / "one").write_text("1")
    (root / "notes.txt").write_text("first\n")
    # A command on a layer sees what is written into a file that was there, and no name that came later.
    (root / "go").write_text("")
    return Scene(root, tmp_path / "state", provider="bubblewrap", policy=presets.load_preset("standard"))


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell", "command": command, **more}


def layers_of(scene: Scene) -> list[str]:
    folder = scene.state / "layers"
    return [path.name for path in folder.iterdir() if path.name.startswith("layer_")] if folder.exists() else []


async def wait_for_file(path: Path) -> None:
    await until(path.exists)


# -- single commands


def test_the_changes_of_a_command_are_applied_and_can_be_reverted(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        script = "echo second >> notes.txt; rm data/one; mkdir -p out/deep; echo x > out/deep/f; chmod 600 notes.txt"
        message = await scene.run(shell(script))
        (event,) = message["events"]
        assert (event["exitCode"], "conflicts" in event, "refusedChanges" in event) == (0, False, False)
        assert (scene.root / "notes.txt").read_text() == "first\nsecond\n"
        assert not (scene.root / "data" / "one").exists()
        assert (scene.root / "out" / "deep" / "f").read_text() == "x\n"
        assert (scene.root / "notes.txt").stat().st_mode & 0o777 == 0o600
        reverted = await scene.runner.revert(message["runId"], PERSON)
        await scene.runner.wait(reverted.id, WAIT)

    play(scene, scenario)
    assert scene.tree() == before
    assert layers_of(scene) == []


@pytest.mark.parametrize("caller", [PERSON, AGENT], ids=["person", "agent"])
def test_what_git_did_is_reverted(scene: Scene, caller: Caller) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        identity = "-c user.name=ada -c user.email=ada@example.org"
        made = await scene.run(shell(f"git init -q && git add . && git {identity} commit -qm one"), caller=caller)
        assert made["events"][0]["exitCode"] == 0
        head = (scene.root / ".git" / "refs" / "heads").glob("*")
        (branch,) = head
        first = branch.read_text()
        again = await scene.run(
            shell(f"echo more >> notes.txt; git {identity} commit -qam two; git checkout -qb other"), caller=caller
        )
        assert branch.read_text() != first
        for run in (again, made):
            assert (await scene.runner.wait((await scene.runner.revert(run["runId"], caller)).id, WAIT)).problems == 0
            if run is again:
                assert (branch.read_text(), (scene.root / "notes.txt").read_text()) == (first, "first\n")

    play(scene, scenario)
    assert scene.tree() == before


def test_a_command_that_fails_has_its_changes_applied(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        (event,) = (await scene.run(shell("echo done > f; exit 3")))["events"]
        assert event["exitCode"] == 3

    play(scene, scenario)
    assert (scene.root / "f").read_text() == "done\n"


def test_a_command_that_takes_too_long_has_its_changes_applied(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        (event,) = (await scene.run(shell("echo done > f; sleep 60", timeout=1000)))["events"]
        assert (event["timedOut"], event["exitCode"]) == (True, 124)

    play(scene, scenario)
    assert (scene.root / "f").read_text() == "done\n"


def test_a_cancelled_command_changes_nothing_until_a_person_applies_it(scene: Scene, tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(shell("echo done > f; echo begun; sleep 60"))
        async for event in scene.runner.stream_events(run.id, None, PERSON):
            if event.name == "output":
                break
        await scene.runner.cancel(run.id, PERSON)
        assert not (scene.root / "f").exists()
        with pytest.raises(PermissionDenied):
            await scene.runner.apply(run.id, None, AGENT)
        applied = await scene.runner.apply(run.id, None, PERSON)
        message = await scene.message(await scene.runner.wait(applied.id, WAIT))
        assert message["events"][0]["applied"] == ["f"]
        assert (scene.root / "f").read_text() == "done\n"
        again = await scene.runner.apply(run.id, None, PERSON)
        assert types(await scene.message(await scene.runner.wait(again.id, WAIT))) != []
        await scene.runner.wait((await scene.runner.revert(applied.id, PERSON)).id, WAIT)
        assert not (scene.root / "f").exists()

    play(scene, scenario)


def test_a_file_that_a_person_saves_meanwhile_is_a_conflict_and_stays(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        wait = "until [ -s go ]; do sleep 0.01; done"
        run = await scene.start(shell(f"echo command > notes.txt; echo new > made; echo begun; {wait}", id="one"))
        async for event in scene.runner.stream_events(run.id, None, PERSON):
            if event.name == "output":
                break
        (scene.root / "notes.txt").write_text("person\n")
        (scene.root / "go").write_text("now")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        (event,) = message["events"]
        assert event["conflicts"] == ["notes.txt"]
        assert "notes.txt" in event["stderr"]
        assert (scene.root / "notes.txt").read_text() == "person\n"
        assert (scene.root / "made").read_text() == "new\n"
        applied = await scene.runner.apply(message["runId"], ["notes.txt"], PERSON)
        await scene.runner.wait(applied.id, WAIT)
        assert (scene.root / "notes.txt").read_text() == "command\n"
        await scene.runner.wait((await scene.runner.revert(applied.id, PERSON)).id, WAIT)
        assert (scene.root / "notes.txt").read_text() == "person\n"

    play(scene, scenario)


# -- approvals


def test_an_approval_shows_the_effect_and_yes_applies_exactly_that(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE)
        pending = message["pendingApproval"]
        assert (message["status"], pending["reason"]) == ("awaiting_approval", "Destructive command requires approval")
        deleted = [(change["path"], change["change"]) for change in pending["effect"]["changes"]]
        assert deleted == [("data", "deleted"), ("data/one", "deleted")]
        assert "layerId" not in pending
        assert (scene.root / "data" / "one").exists()
        (scene.root / "other").write_text("of a person")
        done = await scene.decide(message["runId"], True)
        assert (done["status"], done["events"][-1]["exitCode"]) == ("completed", 0)

    play(scene, scenario)
    assert sorted(scene.tree()) == ["go", "notes.txt", "other"]
    assert layers_of(scene) == []


def test_no_discards_the_layer(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(DELETE)
        assert len(layers_of(scene)) == 1
        denied = await scene.decide(message["runId"], False)
        assert types(denied)[-1] == "policyDenied"

    play(scene, scenario)
    assert (scene.tree(), layers_of(scene)) == (before, [])


def test_a_layer_waits_for_its_decision_through_a_restart(scene: Scene) -> None:
    started: list[str] = []

    async def ask(scene: Scene) -> None:
        started.append((await scene.run(shell("cat notes.txt; rm -rf data/; echo done", id="delete")))["runId"])

    async def decide(scene: Scene) -> None:
        done = await scene.decide(started[0], True)
        assert (done["events"][-1]["stdout"], done["events"][-1]["exitCode"]) == ("first\ndone\n", 0)

    play(scene, ask)
    (scene.root / "notes.txt").write_text("another\n")  # what the command has read already
    play(scene, decide)
    assert sorted(scene.tree()) == ["go", "notes.txt"]


def test_files_that_other_programs_obey_are_asked_about_after_the_command(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(shell("mkdir .vscode; echo '{}' > .vscode/tasks.json; echo ok > plain", id="delete"))
        pending = message["pendingApproval"]
        assert pending["rule"].startswith("effects.")
        assert ".vscode/tasks.json" in [change["path"] for change in pending["effect"]["changes"]]
        assert not (scene.root / "plain").exists()
        await scene.decide(message["runId"], True)
        assert (scene.root / ".vscode" / "tasks.json").read_text() == "{}\n"
        assert (scene.root / "plain").exists()

    play(scene, scenario)


def test_an_approval_before_a_command_does_not_cover_its_effect(scene: Scene) -> None:
    asking = {"shell": {"rules": [{"verdict": "ask", "command": "mkdir", "network": True}]}}
    scene.options["policy"] = merge_policy(presets.load_preset("standard"), asking)

    async def scenario(scene: Scene) -> None:
        message = await scene.run(shell("mkdir .vscode && touch .vscode/tasks.json", id="delete"))
        assert "effect" not in message["pendingApproval"]
        again = await scene.decide(message["runId"], True)
        assert again["pendingApproval"]["rule"] == "effects.obeyedFiles"
        assert not (scene.root / ".vscode").exists()
        done = await scene.decide(message["runId"], True)
        assert (done["status"], (scene.root / ".vscode" / "tasks.json").exists()) == ("completed", True)

    play(scene, scenario)


# -- atomic runs


def test_a_failed_atomic_run_leaves_everything_and_a_persons_saves(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        wait = "until [ -s go ]; do sleep 0.01; done"
        slow = shell(f"echo command > notes.txt; cat made > copy; echo begun; {wait}; exit 1")
        run = await scene.start(create("made", "x"), slow, atomic=True)
        async for event in scene.runner.stream_events(run.id, None, PERSON):
            if event.name == "output":
                break
        assert not (scene.root / "made").exists()
        (scene.root / "notes.txt").write_text("person\n")
        (scene.root / "new.ipynb").write_text("{}")
        (scene.root / "go").write_text("now")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        assert (message["status"], message["events"][-1]["message"].count("undone")) == ("error", 1)

    play(scene, scenario)
    tree = scene.tree()
    assert (tree["notes.txt"], tree["new.ipynb"], "made" in tree, "copy" in tree) == ("person\n", "{}", False, False)
    assert layers_of(scene) == []


def test_an_atomic_run_is_applied_whole_at_its_end_and_reverted_whole(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "made", "edits": [{"oldContent": "x", "newContent": "y"}]}
        read = {"type": "readFile", "path": "seen"}
        message = await scene.run(create("made", "x"), edit, shell("cat made > seen; rm notes.txt"), read, atomic=True)
        assert (message["status"], message["events"][-1]["content"]) == ("completed", "y")
        assert {"made", "seen"} <= scene.tree().keys()
        assert not (scene.root / "notes.txt").exists()
        await scene.runner.wait((await scene.runner.revert(message["runId"], PERSON)).id, WAIT)

    play(scene, scenario)
    assert scene.tree() == before


def test_an_atomic_run_with_a_conflict_applies_nothing(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        wait = "until [ -s go ]; do sleep 0.01; done"
        run = await scene.start(shell(f"echo a > notes.txt; echo b > other; echo begun; {wait}"), atomic=True)
        async for event in scene.runner.stream_events(run.id, None, PERSON):
            if event.name == "output":
                break
        (scene.root / "notes.txt").write_text("person\n")
        (scene.root / "go").write_text("now")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        assert message["status"] == "error"
        assert message["events"][-1]["details"]["conflicts"] == ["notes.txt"]
        assert (scene.root / "notes.txt").read_text() == "person\n"
        assert not (scene.root / "other").exists()
        applied = await scene.runner.apply(run.id, None, PERSON)
        await scene.runner.wait(applied.id, WAIT)
        assert ((scene.root / "notes.txt").read_text(), (scene.root / "other").read_text()) == ("a\n", "b\n")

    play(scene, scenario)


def test_an_atomic_run_that_asks_shows_the_effect_and_goes_on_after_a_restart(scene: Scene) -> None:
    started: list[str] = []

    async def ask(scene: Scene) -> None:
        message = await scene.run(create("made", "x"), DELETE, shell("cat made > last"), atomic=True)
        assert "data/one" in [change["path"] for change in message["pendingApproval"]["effect"]["changes"]]
        assert not (scene.root / "made").exists()
        started.append(message["runId"])

    async def decide(scene: Scene) -> None:
        done = await scene.decide(started[0], True)
        assert done["status"] == "completed"

    play(scene, ask)
    play(scene, decide)
    assert scene.tree() == {"go": "", "last": "x", "made": "x", "notes.txt": "first\n"}
    assert layers_of(scene) == []


def test_an_atomic_run_that_is_denied_leaves_everything(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("made", "x"), DELETE, atomic=True)
        assert (await scene.decide(message["runId"], False))["status"] == "error"

    play(scene, scenario)
    assert (scene.tree(), layers_of(scene)) == (before, [])


# -- dry runs


def test_a_dry_run_runs_commands_and_changes_nothing(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(
            create("made", "x"), shell("cat made; rm -rf data/; echo y > other"), shell("ls"), dryRun=True
        )
        created, first, second = message["events"]
        assert (created["simulated"], first["simulated"], first["stdout"], first["verdict"]) == (True, True, "x", "ask")
        assert second["stdout"].split() == ["go", "made", "notes.txt", "other"]
        changes = {change["path"]: change["change"] for change in first["changes"]}
        assert changes == {"made": "created", "other": "created", "data": "deleted", "data/one": "deleted"}

    play(scene, scenario)
    assert (scene.tree(), layers_of(scene)) == (before, [])


@pytest.mark.parametrize("option", ["atomic", "dryRun"])
def test_commands_without_layers_are_refused_in_atomic_and_dry_runs(scene: Scene, option: str) -> None:
    scene.options["provider"] = "local"

    async def scenario(scene: Scene) -> None:
        with pytest.raises(InvalidArgument, match="atomic or dry run"):
            await scene.run(create("made"), shell("true"), **{option: True})
        assert (await scene.run(create("made"), **{option: True}))["status"] == "completed"

    play(scene, scenario)
    assert (scene.root / "made").exists() == (option == "atomic")


# -- shared commands


def test_a_shared_command_writes_directly_and_is_not_undone(scene: Scene) -> None:
    scene.options["policy"] = presets.load_preset("permissive")

    async def scenario(scene: Scene) -> None:
        run = await scene.start(shell("echo here > seen; until [ -s go ]; do sleep 0.01; done", isolation="shared"))
        await wait_for_file(scene.root / "seen")
        (scene.root / "go").write_text("now")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        assert message["status"] == "completed"
        assert (await scene.runner.changes(run.id, PERSON))["changes"] == []
        with pytest.raises(InvalidArgument, match="shared"):
            await scene.run(shell("true", isolation="shared"), atomic=True)

    play(scene, scenario)


def test_an_agent_is_asked_about_a_shared_command(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        run = await scene.start(shell("true", isolation="shared", id="delete"), caller=AGENT)
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        assert (message["status"], message["pendingApproval"]["rule"]) == ("awaiting_approval", "shell.shared")
        assert (await scene.decide(run.id, True))["status"] == "completed"

    play(scene, scenario)


def test_what_a_shared_command_creates_at_a_protected_path_is_moved_away_at_once(scene: Scene) -> None:
    (scene.root / ".git").mkdir()
    scene.options["policy"] = presets.load_preset("permissive")

    async def scenario(scene: Scene) -> None:
        # By a program: a line that names the path is denied by its words.
        plant = "import os; os.makedirs('.git/hoo' + 'ks'); os.chmod('.git', 0o555)"
        script = f'python3 -c "{plant}"; until [ -s go ]; do sleep 0.01; done'
        run = await scene.start(shell(script, isolation="shared"))
        await until(lambda: any("set-aside" in path.name for path in (scene.root / ".git").iterdir()))
        assert not (scene.root / ".git" / "hooks").exists()
        (scene.root / "go").write_text("now")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        assert ".git/hooks is protected" in message["events"][0]["stderr"]

    play(scene, scenario)
    assert not (scene.root / ".git" / "hooks").exists()


# -- single calls


def test_a_single_call_is_a_run_that_can_be_reverted(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        body = json.dumps({"path": "notes.txt", "content": "agent"}).encode()
        answer = json.loads(await tools.call_tool("writeFile", body, scene.runner, PERSON))
        assert (scene.root / "notes.txt").read_text() == "agent"
        await scene.runner.wait((await scene.runner.revert(answer["runId"], PERSON)).id, WAIT)
        assert (scene.root / "notes.txt").read_text() == "first\n"
        read = json.loads(await tools.call_tool("readFile", b'{"path": "notes.txt"}', scene.runner, PERSON))
        assert "runId" not in read
        wrong = json.dumps({"path": "notes.txt", "content": "x", "expectedHash": f"sha256:{0:064}"}).encode()
        listed = len((await scene.runner.page(PERSON, None, 50, None))[0])
        with pytest.raises(Conflict):
            await tools.call_tool("writeFile", wrong, scene.runner, PERSON)
        assert len((await scene.runner.page(PERSON, None, 50, None))[0]) == listed

    play(scene, scenario)


def test_a_sweep_leaves_the_layer_of_a_call_that_waits(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        body = json.dumps({"command": "rm -rf data/"}).encode()
        with pytest.raises(ApprovalRequired) as refused:
            await tools.call_tool("executeCommand", body, scene.runner, PERSON)
        recovery.sweep_layers(scene.runner._services)
        await scene.decide(refused.value.details["runId"], True, approval_id=refused.value.details["approvalId"])

    play(scene, scenario)
    assert not (scene.root / "data").exists()
