"""The fast path answers what the ordinary pipeline answers, and takes only what nothing but the guard decides."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import ASKING, PERSON, WAIT, Scene, play
from wap_kernel.engine.bulk_create import BulkCreate
from wap_kernel.engine.fast_path import FastPath
from wap_kernel.engine.pipeline import Pipeline
from wap_kernel.files.contained.root import Root
from wap_kernel.git.remote.credentials import TokenFile
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.operations import Operation, ReadFile, WriteFile
from wap_kernel.model.results import Limits
from wap_kernel.model.run import BatchOptions, Step
from wap_kernel.policy.current import BoundPolicy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.parse import merge_policy
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.leases import Lease

LIMIT = 5000
RULES = {
    "filesystem": {"deniedPaths": ["*.key"], "readOnlyPaths": ["raw"], "maxFileSize": LIMIT, "maxEditSize": 4000},
    "effects": {"obeyedFiles": [".envrc", ".vscode"]},
}
PLAIN = merge_policy(ASKING, RULES)
"""A policy under which only the guard decides."""
TOKEN = "Correct+Horse=Battery-Staple0123"
"""A credential of the server. Unlike most, it can be part of a file name."""
LIMITS = Limits(max_file_size=4500)
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
HASH = f"sha256:{'0' * 64}"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(_make_root(tmp_path / "ws"), tmp_path / "state")


def _make_root(root: Path) -> Path:
    (root / "folder").mkdir(parents=True)
    (root / "raw").mkdir()
    (root / "text.txt").write_text("grün\nblau\n")
    (root / "folder" / "deep.txt").write_text("deep")
    (root / "raw" / "data.csv").write_text("1,2\n")
    (root / "empty").write_bytes(b"")
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (root / "bom.txt").write_bytes(b"\xef\xbb\xbfa\n")
    (root / "latin.txt").write_bytes(b"gr\xfcn")
    (root / "binary").write_bytes(b"\0\1\2")
    (root / "over-limit").write_bytes(b"x" * 4501)
    (root / "large").write_bytes(b"x" * (LIMIT + 1))
    (root / "secret.key").write_text("secret")
    (root / "config").write_text(f"token = {TOKEN}\n")
    (root / f"named {TOKEN}.txt").write_text("harmless")
    (root / "a b\n'\"\\$;ü.txt").write_text("odd")
    (root / "-rf").write_text("odd")
    (root / "book.ipynb").write_text(NOTEBOOK)
    (root / "link.txt").symlink_to("text.txt")
    (root / "way").symlink_to("folder")
    (root / "out").symlink_to("/etc/hostname")
    (root / "outside").symlink_to("/tmp")
    (root / "to.txt").symlink_to("secret.key")
    (root / "leads").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    os.mkfifo(root / "pipe")
    return root


def _read(path: str, **more: Any) -> ReadFile:
    return ReadFile(path=path, **more)


def _create(path: str, content: bytes = b"new\n", **more: Any) -> WriteFile:
    return WriteFile(path=path, content=content, **{"mode": "create", **more})


LONG = "x" * 300
TAKEN: list[Operation] = [
    *map(_read, ("text.txt", "folder/deep.txt", "./folder/deep.txt", "folder//deep.txt", "empty", "crlf.txt")),
    *map(
        _read,
        (
            "bom.txt",
            "latin.txt",
            "raw/data.csv",
            ".git/config",
            f"named {TOKEN}.txt",
            "a b\n'\"\\$;ü.txt",
            "-rf",
            "book.ipynb",
        ),
    ),
    *(_read(path, encoding="base64") for path in ("text.txt", "binary", "empty", "latin.txt", f"named {TOKEN}.txt")),
    *(_read(path, encoding="auto") for path in ("text.txt", "binary", "latin.txt")),
    *(
        _create("first"),
        _create("folder/new"),
        _create("./dotted"),
        _create("empty-new", b""),
        _create("grün", b"\xfc"),
    ),
    *(_create("crlf-new", b"a\r\n"), _create("bom-new", b"\xef\xbb\xbf"), _create("binary-new", b"\0\1")),
    *(
        _create("at-limit", b"x" * 4000),
        _create(f"new {TOKEN}"),
        _create("holds", TOKEN.encode()),
        _create("--help"),
        _create(".bashrc"),
    ),
    *(_create("odd\n'\"\\$;"), _create("directories", create_directories=True)),
]
"""Operations that the fast path performs."""
LEFT: list[Operation] = [
    *map(_read, ("binary", "over-limit", "large", "secret.key", "config", "pipe", "folder", ".", "", "/")),
    *map(
        _read, ("link.txt", "way/deep.txt", "out", "to.txt", "leads", "loop", "outside/x", "nothing", "nothing/below")
    ),
    *map(_read, ("text.txt/below", "folder/../text.txt", "../x", "/etc/hostname", "~/x", LONG, "a\0b")),
    *map(_read, (f"missing {TOKEN}", f"{TOKEN}/x")),
    *(_read("text.txt", start_line=1), _read("text.txt", end_line=1), _read("text.txt", start_line=9)),
    *(
        _read("text.txt", start_line=3, end_line=1),
        _read("text.txt", max_size=3),
        _read("folder/deep.txt", within="folder"),
    ),
    *(_read("text.txt", within="folder"), _read("text.txt", within="missing"), _read("config", encoding="base64")),
    *(_create("text.txt"), _create("folder"), _create("link.txt"), _create("leads"), _create("loop"), _create("pipe")),
    *(_create("way/new"), _create("outside/new"), _create("missing/new"), _create("text.txt/new"), _create("../new")),
    *(_create("missing/new", create_directories=True), _create("/etc/new"), _create("folder/../up"), _create(".")),
    *(_create("new.key"), _create("raw/new"), _create(".git/hooks/new"), _create(".git")),
    *(_create("too-much", b"x" * 4001), _create("far-too-much", b"x" * (LIMIT + 1)), _create(LONG), _create("a\0b")),
    *(_create("new.ipynb", NOTEBOOK.encode()), _create("bad.ipynb", b"{"), _create("")),
    *(_create("expected", expected_hash=HASH), _create("text.txt", expected_hash=HASH)),
    *(
        _create("over", mode="overwrite"),
        _create("text.txt", b"2", mode="overwrite"),
        _create("appended", mode="append"),
    ),
    *(_create("folder/within", within="folder"), _create("else", within="folder"), _create("first")),
    *(_create(f"absent/{TOKEN}"), _create(f"named {TOKEN}.txt"), _create(f"{TOKEN}.key")),
]
"""Operations that the fast path leaves to the pipeline."""


@dataclass
class Outcome:
    """All that a batch leaves behind, without times and identifiers."""

    events: list[dict[str, Any]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    tree: dict[str, Any] = field(default_factory=dict)
    changes: Any = None
    fast: set[str] = field(default_factory=set)
    """Ids of the steps that the fast path performed."""


OF_THE_MOMENT = {"id", "operation_id", "at", "duration_ms", "run", "hash"}


def _play(tmp_path: Path, name: str, operations: list[Operation]) -> Outcome:
    """Run the operations as one batch in a new workspace, which is the same each time."""
    root = tmp_path / "ws"
    shutil.rmtree(root, ignore_errors=True)
    _make_root(root)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    git = GitSettings(source=TokenFile(str(tmp_path / "token"), origin="https://git.example.org"))
    scene = Scene(root, tmp_path / name, policy=PLAIN, limits=LIMITS, git=git)
    outcome = Outcome()

    async def scenario(scene: Scene) -> None:
        steps = [Step(f"op-{number}", one.kind, one) for number, one in enumerate(operations)]
        run = await scene.runner.start(steps, BatchOptions(), PERSON, dialect="agent_spaces")
        message = await scene.message(await scene.runner.wait(run.id, WAIT))
        outcome.events = [{**event, "timestamp": ""} for event in message["events"]]
        outcome.changes = {**await scene.runner.changes(run.id, PERSON), "runId": ""}

    with pytest.MonkeyPatch.context() as patched:
        _watch_fast_path(patched, outcome.fast)
        play(scene, scenario)
    with closing(schema.connect(str(scene.state))) as connection:
        rows = [dict(row) for row in hash_chain.iterate_records(connection)]
    # A read's intent is recorded only if the read takes long.
    rows = [row for row in rows if row["step"] and (row["phase"], row["operation"]) != ("intent", "readFile")]
    records = [{name: row[name] for name in row.keys() - OF_THE_MOMENT} for row in rows]
    outcome.records = sorted(records, key=lambda row: (int(row["step"].removeprefix("op-")), row["phase"]))
    outcome.tree = dict(_tree(root))
    return outcome


def _watch_fast_path(patched: pytest.MonkeyPatch, fast: set[str]) -> None:
    """Note the steps that the fast path performs."""
    read, create = Pipeline.read_fast, BulkCreate.create

    def watch_read(pipeline: Pipeline, path: FastPath, operation: ReadFile, *more: Any) -> Any:
        whole = read(pipeline, path, operation, *more)
        if whole is not None:
            fast.add(more[-1])
        return whole

    def watch_create(bulk: BulkCreate, path: FastPath, files: Any, *more: Any) -> Any:
        results = create(bulk, path, files, *more)
        fast.update(new.step for new, _ in zip(files, results, strict=False))
        return results

    patched.setattr(Pipeline, "read_fast", watch_read)
    patched.setattr(BulkCreate, "create", watch_create)


def _tree(root: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(root.rglob("*")):
        stat = path.lstat()
        content: object = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        yield str(path.relative_to(root)), (oct(stat.st_mode), content)


def _name(operation: object) -> str:
    assert isinstance(operation, ReadFile | WriteFile)
    return f"{operation.kind} {operation.path[:40]!r}"


OPERATIONS = [*LEFT[:10], *TAKEN, *LEFT[10:]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """What the same batch leaves behind with the fast path and without it."""
    tmp_path = tmp_path_factory.mktemp("paths")
    fast = _play(tmp_path, "state-fast", OPERATIONS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EffectivePolicy, "only_guard_decides", False)
        ordinary = _play(tmp_path, "state-ordinary", OPERATIONS)
    assert not ordinary.fast
    return fast, ordinary


@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=[_name(one) for one in OPERATIONS])
def test_both_paths_give_the_same_event_and_audit_records(outcomes: tuple[Outcome, Outcome], number: int) -> None:
    fast, ordinary = outcomes
    assert fast.events[number] == ordinary.events[number]
    assert list(fast.events[number]) == list(ordinary.events[number]), "the fields stand in the same order"
    records = [[row for row in one.records if row["step"] == f"op-{number}"] for one in outcomes]
    assert records[0] == records[1]


def test_both_paths_leave_the_same_files_and_changes_behind(outcomes: tuple[Outcome, Outcome]) -> None:
    fast, ordinary = outcomes
    assert len(fast.events) == len(ordinary.events) == len(OPERATIONS)
    assert len(fast.records) == len(ordinary.records)
    assert fast.tree == ordinary.tree
    assert fast.changes == ordinary.changes
    assert {event.get("success") for event in fast.events} == {True, False, None}


def test_the_fast_path_takes_what_it_can(outcomes: tuple[Outcome, Outcome]) -> None:
    numbers = {int(step.removeprefix("op-")) for step in outcomes[0].fast}
    assert [OPERATIONS[number] for number in sorted(numbers)] == TAKEN


def test_no_event_and_no_record_holds_the_credential(outcomes: tuple[Outcome, Outcome]) -> None:
    for outcome in outcomes:
        assert TOKEN not in str(outcome.events) + str(outcome.records) + str(outcome.changes)


@pytest.mark.parametrize("rules", [{"confirmationRequired": ["moveFile"]}, {"confirmationRequired": ["readFile"]}])
def test_a_policy_that_asks_anything_closes_the_fast_path(scene: Scene, rules: dict[str, Any]) -> None:
    effective = EffectivePolicy((merge_policy(PLAIN, rules),))
    assert not effective.only_guard_decides
    assert EffectivePolicy((PLAIN,)).only_guard_decides


@pytest.fixture
def fast_path(scene: Scene, tmp_path: Path) -> Iterator[FastPath]:
    with closing(Lease(str(tmp_path / "state"), "test")) as lease:
        protected = find_protected_paths(str(scene.root), str(tmp_path / "state"))
        with closing(Root(str(scene.root), guard=protected, journal=lease)) as root:
            effective = EffectivePolicy((PLAIN,))
            guard = PolicyGuard(protected, effective)
            yield FastPath(root, BoundPolicy(effective, guard, guard), Limits())


def test_a_file_that_other_programs_obey_is_left_to_the_pipeline(fast_path: FastPath) -> None:
    paths = (".envrc", "./folder//.ENVRC", ".vscode/tasks.json", "envrc", "vscode/tasks.json")
    assert [fast_path.accepts(_create(path)) for path in paths] == [False, False, False, True, True]


@pytest.mark.parametrize("operation", [one for one in LEFT if isinstance(one, ReadFile)], ids=_name)
def test_a_read_that_is_left_to_the_pipeline_leaves_no_descriptor_open(
    fast_path: FastPath, operation: ReadFile
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fast_path.read(operation)
    assert len(os.listdir("/proc/self/fd")) == before
