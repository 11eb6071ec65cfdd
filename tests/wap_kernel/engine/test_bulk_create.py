"""New files, several at a time: each gets what it would get alone, and a crash or a cancel among them is told."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import ASKING, PERSON, Scene, create, play
from wap_kernel.files.contained.linkless import LinklessFiles
from wap_kernel.files.contained.renames import is_temporary
from wap_kernel.model.policy import Policy
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs.step_execution import MAX_BULK_FILES
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain

PLAIN = merge_policy(ASKING, {"filesystem": {"deniedPaths": ["*.key"], "maxFileSize": 5000}})
ASKS = merge_policy(PLAIN, {"confirmationRequired": ["moveFile"]})
"""Says nothing of new files, but has something to ask, so that nothing is plain."""
MANY = 2 * MAX_BULK_FILES + 5

Row = dict[str, Any]


def _audit(scene: Scene) -> list[Row]:
    with closing(schema.connect(str(scene.state))) as connection:
        assert hash_chain.verify_chain(connection).problem is None
        return [dict(row) for row in hash_chain.iterate_records(connection)]


CASES = [
    *(create("first"), create("folder/a"), create("folder/b"), create("folder/b"), create("new/below/c")),
    *(create("new/below/d"), create("there"), create("there", overwrite=True), create("way/e"), create("leads")),
    *(create("secret.key"), create("large", "x" * 5001), create("there/f"), create("folder"), create("out/g")),
    *(create("bad.ipynb", "{"), create(".git/hook"), create("x" * 250, "long"), create("./dotted"), create("last", "")),
    *(create("coded", "Z3LDvG4=", encoding="base64"), create("grün", "grün")),
]


def _played(tmp_path: Path, policy: Policy) -> tuple[Scene, list[Row], dict[str, str | None], list[Row]]:
    """What the events say, what there is then and what the audit has; and all of it can be undone."""
    root = tmp_path / "ws"
    (root / "folder").mkdir(parents=True)
    (root / "there").write_text("before")
    (root / "way").symlink_to("folder")
    (root / "leads").symlink_to("nowhere")
    (root / "out").symlink_to("/tmp")
    scene = Scene(root, tmp_path / "state", policy=policy)
    before, found, after = scene.tree(), list[Row](), dict[str, str | None]()

    async def scenario(scene: Scene) -> None:
        message = await scene.run(*CASES)
        found.extend({**event, "timestamp": ""} for event in message["events"])
        after.update(scene.tree())
        reverted = await scene.runner.revert(message["runId"], PERSON)
        assert (await scene.runner.wait(reverted.id, 30)).status.value == "completed"

    play(scene, scenario)
    assert scene.tree() == before
    kept = ("phase", "operation", "summary", "outcome", "code", "error", "step", "tool", "dialect", "user", "agent")
    records = [{name: row[name] for name in kept} for row in _audit(scene) if row["tool"] == "createFile"]
    return scene, found, after, records


def test_several_new_files_are_made_as_each_alone(tmp_path: Path) -> None:
    _, short, made, audited = _played(tmp_path / "short", PLAIN)
    _, long, expected, recorded = _played(tmp_path / "long", ASKS)
    assert short == long
    assert made == expected
    assert {event.get("success") for event in short} == {True, False, None}
    by_step = sorted(audited, key=lambda row: (int(row["step"].removeprefix("op-")), row["phase"]))
    assert by_step == sorted(recorded, key=lambda row: (int(row["step"].removeprefix("op-")), row["phase"]))


def test_the_intents_are_stored_before_anything_is_made(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "ws", tmp_path / "state", policy=PLAIN)
    scene.root.mkdir()

    async def scenario(scene: Scene) -> None:
        await scene.run()
        with closing(sqlite3.connect(scene.state / "state.db")) as connection:
            refuse = "WHEN NEW.phase = 'intent' AND NEW.step = 'op-3' BEGIN SELECT RAISE(ABORT, 'no'); END"
            connection.execute(f"CREATE TRIGGER no BEFORE INSERT ON audit {refuse}")
        message = await scene.run(*(create(f"new-{number}") for number in range(MANY)))
        refused = [event for event in message["events"] if not event["success"]]
        assert {event["code"] for event in refused} == {"PROVIDER_UNAVAILABLE"}
        assert len(scene.tree()) == MANY - len(refused)
        assert "new-2" not in scene.tree()

    play(scene, scenario)


def test_a_cancel_among_them_leaves_out_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path / "ws", tmp_path / "state", policy=PLAIN)
    scene.root.mkdir()
    before = LinklessFiles.stage

    async def scenario(scene: Scene) -> None:
        def and_cancel(direct: LinklessFiles, path: str, data: bytes) -> Any:
            if path == "new-4":
                (execution, _), *_ = scene.runner._executions.values()
                execution.cancel.request()
            return before(direct, path, data)

        monkeypatch.setattr(LinklessFiles, "stage", and_cancel)
        message = await scene.run(*(create(f"new-{number}") for number in range(MANY)))
        assert message["status"] == "cancelled"
        assert [event["path"] for event in message["events"]] == [f"new-{number}" for number in range(5)]
        changes = await scene.runner.changes(message["runId"], PERSON)
        assert {change["path"] for change in changes["changes"]} == set(scene.tree()) == {f"new-{n}" for n in range(5)}

    play(scene, scenario)
    rows = _audit(scene)
    outcomes = {row["step"]: row["outcome"] for row in rows if row["phase"] == "outcome" and row["step"]}
    assert outcomes.keys() == {row["step"] for row in rows if row["phase"] == "intent"}, "an intent has no outcome"
    assert set(list(outcomes.values())[:5]) == {"ok"}
    assert set(list(outcomes.values())[5:]) == {"failed"}


def test_a_folder_that_cannot_be_synced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path / "ws", tmp_path / "state", policy=PLAIN)
    scene.root.mkdir()
    sync = os.fsync

    def no_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    async def scenario(scene: Scene) -> None:
        await scene.run()
        monkeypatch.setattr(os, "fsync", no_folders)
        opened = len(os.listdir("/proc/self/fd"))
        message = await scene.run(create("a"), create("b"))
        assert [event["success"] for event in message["events"]] == [False, False]
        assert len(os.listdir("/proc/self/fd")) == opened
        monkeypatch.undo()
        changes = await scene.runner.changes(message["runId"], PERSON)
        assert {change["path"] for change in changes["changes"]} == {"a", "b"}, "they are there all the same"

    play(scene, scenario)


DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.run_workspace import Scene, create, play
from tests.wap_kernel.engine.test_bulk_create import PLAIN
from wap_kernel.files.contained import atomic_write as atomic

root, state, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
rename, count = atomic.rename_exclusive, 0

def and_die(*arguments):
    global count
    rename(*arguments)
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)

atomic.rename_exclusive = and_die

async def scenario(scene):
    await scene.run(*(create(f"new-{number}", f"{number}" * 1000) for number in range(40)))

play(Scene(root, state, policy=PLAIN), scenario)
"""


def test_after_a_kill_among_them_all_that_were_under_way_are_named(tmp_path: Path) -> None:
    last = MAX_BULK_FILES + 3
    scene = Scene(tmp_path / "ws", tmp_path / "state", policy=PLAIN)
    scene.root.mkdir()
    command = [sys.executable, "-c", DYING, str(scene.root), str(scene.state), str(last)]
    died = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, timeout=60, check=False)
    assert died.returncode == -9, died.stderr.decode()
    found = {path: content for path, content in scene.tree().items() if not is_temporary(path)}
    assert found == {f"new-{number}": f"{number}" * 1000 for number in range(last)}
    done = MAX_BULK_FILES

    async def scenario(scene: Scene) -> None:
        runs, _ = await scene.runner.page(PERSON, None, 10, None)
        message = await scene.message(await scene.runner.get(runs[0].id, PERSON))
        *events, ended = message["events"]
        assert [event["path"] for event in events] == [f"new-{number}" for number in range(done)]
        assert (message["status"], ended["type"], ended["category"]) == ("error", "error", "system")
        assert ended["details"]["operationId"] == f"op-{done + 1}"
        under_way = [f"op-{number + 1}" for number in range(done, 2 * MAX_BULK_FILES)]
        assert ended["details"]["operationIds"] == under_way
        # Those that are there are known to be the run's own, so nothing has to be forced.
        reverted = await scene.runner.revert(runs[0].id, PERSON)
        assert (await scene.runner.wait(reverted.id, 30)).status.value == "completed"

    play(scene, scenario)
    assert scene.tree() == {}
    intents = {row["step"] for row in _audit(scene) if row["phase"] == "intent" and row["tool"] == "createFile"}
    assert intents == {f"op-{number + 1}" for number in range(done + MAX_BULK_FILES)}


def test_all_or_nothing_is_never_several_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path / "ws", tmp_path / "state", policy=PLAIN)
    scene.root.mkdir()
    before = LinklessFiles.stage

    def but_one(direct: LinklessFiles, path: str, data: bytes) -> Any:
        if path == "new-3":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return before(direct, path, data)

    monkeypatch.setattr(LinklessFiles, "stage", but_one)

    async def scenario(scene: Scene) -> None:
        message = await scene.run(*(create(f"new-{number}") for number in range(8)), atomic=True)
        assert message["status"] == "error"

    play(scene, scenario)
    assert scene.tree() == {}
    intents = [json.loads(row["summary"])["path"] for row in _audit(scene) if row["phase"] == "intent" and row["step"]]
    assert intents == [f"new-{number}" for number in range(4)], "nothing begins after the one that fails"
