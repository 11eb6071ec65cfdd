"""Batches that somebody sends to see what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wap_kernel.runner.scene import PERSON, Scene, create, play
from wap_kernel.errors import InvalidArgument, NotFound


def test_a_dry_run_does_not_leave_by_a_link(scene: Scene, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (scene.root / "way").symlink_to(outside)

    async def scenario(scene: Scene) -> None:
        edit = {"type": "editFile", "path": "way/secret", "edits": [{"oldContent": "secret", "newContent": "x"}]}
        message = await scene.run(create("way/new"), edit, {"type": "readFile", "path": "way/secret"}, dryRun=True)
        assert [event["type"] for event in message["events"]] == ["policyDenied"] * 3
        assert "secret" not in str([event.get("diff") for event in message["events"]])

    play(scene, scenario)
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


@pytest.mark.parametrize("name", ["x/../y", "../../etc/passwd", "a\nb", "\x1b[31m", "."])
def test_an_operation_may_have_any_name(scene: Scene, name: str) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run({"type": "shell", "id": name, "command": "echo here"})
        assert message["events"][0]["operationId"] == name
        page = await scene.runner.output(message["runId"], name, "stdout", 0, 100, PERSON)
        assert page["content"] == "here\n"
        with pytest.raises(NotFound):
            await scene.runner.output(message["runId"], "another", "stdout", 0, 100, PERSON)

    play(scene, scenario)


def test_an_atomic_batch_that_reaches_for_the_policy_leaves_nothing(scene: Scene) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("made"), create(".cws-policy.json", "{}"), create("more"), atomic=True)
        assert message["status"] == "error"
        assert [event["type"] for event in message["events"]] == ["createFile", "policyDenied", "error"]

    play(scene, scenario)
    assert scene.tree() == before


def test_a_path_with_control_characters_is_a_path(scene: Scene) -> None:
    async def scenario(scene: Scene) -> None:
        message = await scene.run(create("a\nb\x1b[31m"))
        assert message["events"][0]["path"] == "a\nb\x1b[31m"
        with pytest.raises(InvalidArgument):
            await scene.start(create("a\0b"))

    play(scene, scenario)
    assert (scene.root / "a\nb\x1b[31m").read_text() == "new"
