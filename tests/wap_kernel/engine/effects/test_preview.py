"""The effect of a command as a person sees it: bounded, and nothing that is closed to the caller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.layer_workspace import LayerWorkspace
from tests.support.run_workspace import PERSON, WAIT, Scene, create, play
from wap_kernel.engine.effects import preview as effect_preview
from wap_kernel.engine.effects.preview import EffectPreview, describe_effect
from wap_kernel.files.interface import NullGuard
from wap_kernel.model.caller import Caller
from wap_kernel.model.command import CommandOutcome
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.policy import presets
from wap_kernel.policy.effects.judge import EffectJudgement, RefusedChange
from wap_kernel.policy.parse import merge_policy

OUTCOME = CommandOutcome("out\n", "err\n", 4, 4, False, False, exit_code=3, duration=0.1)


class ClosedFile(NullGuard):
    """A guard that closes one file."""

    def check(self, path: str, *_: Any, **__: Any) -> None:
        if path == "closed":
            raise PermissionDenied("closed")


def preview(
    workspace: LayerWorkspace, script: str, outcome: CommandOutcome = OUTCOME, **judgement: Any
) -> EffectPreview:
    layer = workspace.layers.create()
    try:
        assert workspace.run(script, workspace.make_task(layer=layer)).exit_code == 0
        files = layer.lower.guarded_by(ClosedFile())
        return describe_effect(layer, files, outcome, layer.read_changes(), EffectJudgement(**judgement))
    finally:
        layer.discard()


def changes_of(shown: EffectPreview) -> dict[str, dict[str, Any]]:
    return {change["path"]: change for change in shown.effect["changes"]}


def test_the_outcome_and_the_changes_are_shown(workspace: LayerWorkspace) -> None:
    (workspace.folder / "text").write_text("one\ntwo\n")
    (workspace.folder / "gone").write_text("last words\n")
    (workspace.folder / "mode").write_text("x")
    (workspace.folder / "touched").write_text("x")
    shown = preview(
        workspace,
        "echo three >> text; rm gone; chmod 600 mode; touch touched; mkdir new; echo n > new/f; ln -s text link",
    )
    assert {name: shown.effect[name] for name in ("exitCode", "stdout", "stderr")} == {
        "exitCode": 3,
        "stdout": "out\n",
        "stderr": "err\n",
    }
    found = changes_of(shown)
    assert {path: change["change"] for path, change in found.items()} == {
        **{"gone": "deleted", "link": "created", "mode": "mode", "new": "created", "new/f": "created"},
        "text": "changed",
    }
    assert shown.effect["counts"] == {"created": 3, "changed": 1, "deleted": 1, "mode": 1}
    for path, line in {"text": "+three", "gone": "-last words", "new/f": "+n"}.items():
        assert line in found[path]["diff"]
    assert (found["new"]["kind"], found["link"]["kind"], "diff" in found["mode"]) == ("folder", "link", False)
    assert set(shown.paths) == found.keys()
    assert "timedOut" not in shown.effect and "more" not in shown.effect and "refusedChanges" not in shown.effect


def test_binary_and_large_files_are_measured_and_not_shown(workspace: LayerWorkspace) -> None:
    (workspace.folder / "binary").write_bytes(b"a\0b")
    (workspace.folder / "large").write_bytes(b"x" * (effect_preview.MAX_DIFFED_BYTES + 1))
    found = changes_of(preview(workspace, "printf 'a\\0bc' > binary; echo small > large; head -c 400000 /dev/zero > n"))
    assert found["binary"]["note"] == "Binary: 3 bytes before, 4 bytes after."
    assert found["large"]["note"] == f"{effect_preview.MAX_DIFFED_BYTES + 1} bytes before, 6 bytes after"
    assert found["n"]["note"] == "0 bytes before, 400000 bytes after"
    assert not any("diff" in change for change in found.values())


def test_what_was_closed_to_the_caller_is_not_shown(workspace: LayerWorkspace) -> None:
    (workspace.folder / "closed").write_text("SECRET\n")
    found = changes_of(preview(workspace, "echo more >> closed"))
    assert found["closed"] == {"path": "closed", "change": "changed"}


def test_what_would_not_be_applied_is_named_apart(workspace: LayerWorkspace) -> None:
    refused = (RefusedChange("no", "deniedPaths", "closed"),)
    shown = preview(workspace, "echo x > no; echo x > yes", refused=refused)
    assert list(changes_of(shown)) == ["yes"]
    assert shown.effect["refusedChanges"] == [{"path": "no", "rule": "deniedPaths", "reason": "closed"}]


def test_many_changes_are_counted_and_some_are_named(
    workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect_preview, "MAX_CHANGES", 3)
    shown = preview(workspace, "touch 1 2 3 4 5")
    assert (len(shown.effect["changes"]), shown.effect["more"], len(shown.paths)) == (3, 2, 3)
    assert shown.effect["counts"] == {"created": 5}


def test_all_diffs_together_are_bounded(workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect_preview, "MAX_DIFFS_CHARACTERS", 50)
    found = changes_of(preview(workspace, "for f in 1 2 3; do seq 20 > $f; done"))
    assert ["diff" in change for change in found.values()] == [True, False, False]
    assert found["2"]["isDiffTruncated"]


def test_time_for_diffs_is_bounded(workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect_preview, "DIFF_SECONDS", 0.0)
    assert changes_of(preview(workspace, "echo x > f"))["f"]["isDiffTruncated"]


def test_long_output_keeps_its_beginning_and_its_end(workspace: LayerWorkspace) -> None:
    text = "first" + "x" * 50_000 + "last"
    shown = preview(workspace, "true", replace(OUTCOME, stdout=text, timed_out=True)).effect
    assert len(shown["stdout"]) < effect_preview.MAX_OUTPUT_CHARACTERS + 100
    assert shown["stdout"].startswith("first") and shown["stdout"].endswith("last")
    assert shown["timedOut"]


# -- in approvals


def test_credentials_in_the_output_are_masked(tmp_path: Path) -> None:
    secret = "ghp_" + 36 * "a"
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "token").write_text(secret)
    scene = Scene(tmp_path / "root", tmp_path / "state", provider="bubblewrap", policy=presets.load_preset("standard"))

    async def scenario(scene: Scene) -> None:
        asked = await scene.run({"type": "shell", "id": "delete", "command": "cat data/token; rm -rf data"})
        effect = asked["pendingApproval"]["effect"]
        assert secret not in effect["stdout"] and effect["stdout"]
        assert secret not in (await scene.decide(asked["runId"], True))["events"][-1]["stdout"]

    play(scene, scenario)


def test_an_atomic_run_shows_its_diffs_against_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "text").write_text("one\n")
    scene = Scene(tmp_path / "root", tmp_path / "state", provider="bubblewrap", policy=presets.load_preset("standard"))

    async def scenario(scene: Scene) -> None:
        delete = {"type": "shell", "id": "delete", "command": "echo two > text; rm -rf data"}
        asked = await scene.run(create("made", "first\n"), delete, atomic=True)
        found = {change["path"]: change for change in asked["pendingApproval"]["effect"]["changes"]}
        assert "-one" in found["text"]["diff"] and "+two" in found["text"]["diff"]
        assert "+first" in found["made"]["diff"]

    play(scene, scenario)


def test_an_agent_does_not_see_an_effect_on_what_it_may_not_read(tmp_path: Path) -> None:
    agent = Caller(agent="an agent", token="t1")
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "x.txt").write_text("SECRET\n")
    policy = merge_policy(presets.load_preset("standard"), {"confirmationRequired": ["readFile"]})
    scene = Scene(tmp_path / "root", tmp_path / "state", provider="bubblewrap", policy=policy)

    async def scenario(scene: Scene) -> None:
        run = await scene.start({"type": "shell", "command": "rm -rf data"}, caller=agent)
        await scene.runner.wait(run.id, WAIT)
        seen = await scene.runner.message(await scene.runner.get(run.id, agent), agent)
        assert "SECRET" not in str(seen)
        shown = await scene.runner.message(await scene.runner.get(run.id, PERSON), PERSON)
        assert "SECRET" in str(shown)

    play(scene, scenario)
