"""Unusual batches: empty, huge, with odd ids, paths and contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import ASKING, PERSON, WAIT, Scene, create, play
from wap_kernel.model.errors import InvalidArgument, NotFound, WapError
from wap_kernel.model.limits import AGENT_SPACES_MAX_PATH_CHARACTERS
from wap_kernel.model.operations import CopyFile, CreateDirectory, MoveFile, Operation, WriteFile
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import RunStatus
from wap_kernel.policy.parse import merge_policy


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


BELOW, GIT = "Not a folder on the way to: {}", "The path is read-only: {}"
REFUSED: list[
    tuple[list[dict[str, Any]], str, str]
] = [  # what comes first and what is refused; all of it may be done together with others
    *(([create("a"), create(path)], BELOW, path) for path in ("a/b", "a/b/c/d")),
    *(([create(f"{folder}/a"), create(path)], BELOW, path) for folder, path in (("data", "data/a/b"), ("n", "n/a/b"))),
    ([create("n/a/b"), create("n/a")], "Is a folder: {}. Name a file to write", "n/a"),
    *(([create(path)], GIT, path) for path in (".git", "n/.git", "data/.git/config", "n/.git/config", "n/.GIT/config")),
    *(([create(path)], GIT, path) for path in ("data/.git/hooks/pre-commit", "n/.git/hooks/pre-commit")),
]
OPTIONS: list[dict[str, Any]] = [{}, {"atomic": True}, {"dryRun": True}]
ASKS = merge_policy(ASKING, {"confirmationRequired": ["moveFile"]})
"""Nothing is plain then: each file is made alone."""


@pytest.mark.parametrize("policy", [ASKING, ASKS], ids=["together", "alone"])
def test_what_cannot_be_made_is_refused_in_words_and_leaves_nothing(scene: Scene, policy: Policy) -> None:
    scene.options["policy"] = policy
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        for operations, said, path in REFUSED:
            asked = [create("first"), *operations, create("last")]
            for options in OPTIONS:
                message = await scene.run(*asked, **options)
                refusals = [event for event in message["events"] if "error" in event or "reason" in event]
                assert len(refusals) == 1
                assert said.format(path) in (refusals[0].get("error") or refusals[0]["reason"])
                if not options:
                    made = {operation["path"] for operation in asked} - {path}
                    assert {name for name, content in scene.tree().items() if content is not None} == {
                        "data/x.txt",
                        *made,
                    }
                    undoing = await scene.runner.revert(message["runId"], PERSON)
                    assert (await scene.runner.wait(undoing.id, WAIT)).status is RunStatus.COMPLETED
                assert scene.tree() == before, (path, options)

    play(scene, scenario)


WRONG = "sha256:" + "0" * 64
SINGLE: list[tuple[Operation, str]] = [
    *((MoveFile(source="data", destination=path, create_directories=True), GIT) for path in (".git", "n/.git")),
    (MoveFile(source="data", destination="n/.GIT", create_directories=True), GIT),
    (MoveFile(source="data/x.txt", destination="n/.git/hooks/pre-commit", create_directories=True), GIT),
    *((CopyFile(source=one, destination="n/.git", create_directories=True), GIT) for one in ("data", "data/x.txt")),
    (CopyFile(source="data/x.txt", destination="n/.git/config", create_directories=True), GIT),
    *((CreateDirectory(path=path), GIT) for path in (".git", "n/.git", "n/.git/hooks")),
    *((CreateDirectory(path=path), BELOW) for path in ("data/x.txt/n", "data/x.txt/n/m")),
    (CreateDirectory(path="data/x.txt"), "Already exists: {}"),
    (MoveFile(source="data", destination="data/x.txt/n", create_directories=True), "into itself"),
    (CopyFile(source="data/x.txt", destination="data/x.txt/n/m", create_directories=True), BELOW),
    (CopyFile(source="data", destination="n/m", create_directories=True), "Is a folder: data"),
    (CopyFile(source="data/x.txt", destination="n/m", create_directories=True, expected_hash=WRONG), "has changed"),
    (CopyFile(source="data/x.txt", destination="n/m.ipynb", create_directories=True), "invalid notebook"),
    (MoveFile(source="data/x.txt", destination="n/m", create_directories=True, expected_hash=WRONG), "has changed"),
    (MoveFile(source="data/x.txt", destination="n/m.ipynb", create_directories=True), "invalid notebook"),
    (WriteFile(path="n/m", content=b"", create_directories=True, expected_hash=WRONG), "no longer exists"),
    (WriteFile(path="n/m.ipynb", content=b"{", create_directories=True), "invalid notebook"),
    (WriteFile(path="n/m/..", content=b"", create_directories=True), "No such folder: n/m"),
    (CopyFile(source="data/x.txt", destination="n/m/..", create_directories=True), "No such folder: n/m"),
    (MoveFile(source="shut", destination="n/m/o", create_directories=True), 'Path "shut/in/secret" is denied'),
]


def test_what_is_refused_leaves_no_folder_that_was_made_for_it(scene: Scene) -> None:
    scene.options["policy"] = merge_policy(ASKING, {"deniedPaths": ["shut/in/*"]})
    (scene.root / "shut/in").mkdir(parents=True)
    (scene.root / "shut/in/secret").touch()
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        for operation, said in SINGLE:
            with pytest.raises(WapError) as refused:
                await scene.runner.workspace.perform(operation, PERSON)
            named = operation.summary()
            assert said.format(named.get("destination") or named["path"]) in refused.value.message
            assert scene.tree() == before, operation

    play(scene, scenario)


LONG = AGENT_SPACES_MAX_PATH_CHARACTERS * "é"
"""As many characters as a path may have, and more bytes than a name may."""


@pytest.mark.parametrize(
    "operation",
    [
        {"type": "readFile", "path": LONG},
        {"type": "deleteFile", "path": LONG},
        {"type": "editFile", "path": LONG, "edits": [{"oldContent": "a", "newContent": "b"}]},
        {"type": "shell", "command": "true", "cwd": LONG},
        create(LONG),
        create(f"new/{LONG[4:]}"),
        create(f"{LONG[4:]}/new"),
    ],
    ids=lambda operation: operation["type"],
)
def test_a_name_that_no_file_can_have_fails_alone(scene: Scene, operation: dict[str, Any]) -> None:
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(operation, create("z"))
        assert message["status"] == "completed"
        failed, created = message["events"]
        assert (failed["type"], failed["success"], created["success"]) == (operation["type"], False, True)
        assert failed["code"] in ("INVALID_ARGUMENT", "FILE_NOT_FOUND")

    play(scene, scenario)
    assert scene.tree() == {**before, "z": "new"}
