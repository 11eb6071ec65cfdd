"""Changes by their paths, kinds and numbers: what is refused, and what a person is asked about."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.change_sets import change_set, changed, created, deleted, judge, moved
from wap_kernel.model.changes import Change, ChangeKind, ChangeSet, FileImage
from wap_kernel.model.policy import EffectsPolicy, FilesystemPolicy, Policy, VerdictKind
from wap_kernel.policy import presets
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.effects.judge import EffectFacts, judge_changes
from wap_kernel.policy.effects.path_rules import check_path
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

STANDARD = presets.load_preset("standard")
PERMISSIVE = presets.load_preset("permissive")
PROTECTED = ProtectedPaths(
    hidden=frozenset({("run",), (".ssh",)}),
    read_only=frozenset({(".bashrc",), (".zshenv",), (".config", "git"), (".gitconfig",)}),
)


def files(**fields: object) -> Policy:
    return Policy(name="layer", filesystem=FilesystemPolicy.model_validate(fields))


DENYING = files(denied_paths=("*.env", "conf/prod.yml"), read_only_paths=("raw/**",))
EXAM = files(allowed_paths=("exam/**",))

REFUSED: list[tuple[str, tuple[Policy, ...], list[Change], dict[str, str]]] = [
    ("nothing is closed", (), [created("a"), changed("b"), deleted("c")], {}),
    ("denied", (DENYING,), [created("a"), created("x/b.env")], {"x/b.env": "layer: *.env"}),
    ("without case", (DENYING,), [created("B.ENV")], {"B.ENV": "layer: *.env"}),
    ("read-only", (DENYING,), [changed("raw/a"), deleted("raw/b")],
     {"raw/a": "layer: raw/**", "raw/b": "layer: raw/**"}),
    ("everything is read-only", (files(access="read"),), [created("a")], {"a": "filesystem.access"}),
    ("a broken policy", (Policy(broken="x"),), [created("a")], {"a": "broken policy"}),
    ("not in allowed paths", (EXAM,), [created("a"), created("exam/b")], {"a": "layer: allowedPaths"}),
    ("a folder on the way", (EXAM,), [created("exam", "folder"), created("exam/b")], {}),
    ("a deletion above what stays", (DENYING,), [deleted("d", "folder"), deleted("d/.env"), deleted("d/e")],
     {"d": "layer: *.env", "d/.env": "layer: *.env"}),
    ("a file for a folder with something that stays", (DENYING,), [changed("d", "folder", "file"), deleted("d/.env")],
     {"d": "layer: *.env", "d/.env": "layer: *.env"}),
    ("all in a folder that is not made", (DENYING,), [created("b.env", "folder"), created("b.env/c"), created("c")],
     {"b.env": "layer: *.env", "b.env/c": "layer: *.env"}),
    ("a move of something closed by its path", (DENYING,), [moved("conf", "c2")], {"c2": "layer: conf/prod.yml"}),
    ("a move to a closed path", (DENYING,), [moved("stage", "conf")], {"conf": "layer: conf/prod.yml"}),
    ("a move into a closed folder", (DENYING,), [moved("a", "raw/b")], {"raw/b": "layer: raw/**"}),
    ("a move out of a closed folder", (DENYING,), [moved("raw/b", "a")], {"a": "layer: raw/**"}),
    ("what is done to a folder that is not moved", (DENYING,),
     [moved("raw/b", "a"), changed("a/x/y"), created("raw/b/z"), created("c"), deleted("raw", "folder")],
     dict.fromkeys(("a", "a/x/y", "raw/b/z", "raw"), "layer: raw/**")),
    ("a move is applied", (DENYING,), [moved("src", "lib"), changed("lib/a"), deleted("lib/b")], {}),
    ("a device", (), [created("null", "special"), created("a")], {"null": "effects.special"}),
    ("a pipe for a file", (), [changed("a", "file", "special")], {"a": "effects.special"}),
    ("protected", (), [created(".bashrc"), created(".ssh/id"), created("b/.bashrc")],
     {".bashrc": "protected", ".ssh/id": "protected"}),
    ("a policy file anywhere", (), [created(".cws-policy.json"), changed("a/.CWS-policy.json")],
     {".cws-policy.json": "protected", "a/.CWS-policy.json": "protected"}),
    # The findings: a start-up file behind a folder without permissions; a link that is replaced.
    ("planted", (), [created(".config", "folder"), created(".config/git", "folder"), created(".config/git/config"),
                     created(".zshenv")],
     dict.fromkeys((".config/git", ".config/git/config", ".zshenv"), "protected")),
    ("a replaced link", (), [changed(".bashrc", "link", "file"), deleted(".gitconfig", "link")],
     {".bashrc": "protected", ".gitconfig": "protected"}),
    ("a replaced link to a folder", (), [changed(".ssh", "link", "folder"), created(".ssh/authorized_keys")],
     {".ssh": "protected", ".ssh/authorized_keys": "protected"}),
    ("a folder that holds protected paths is moved there", (), [moved("stage", ".config")], {".config": "protected"}),
    ("a link above a protected path", (), [created("mine/git/config"), created(".config", "link")],
     {".config": "protected"}),
    ("a folder above a protected path that becomes a link", (), [changed(".config", "folder", "link"),
                                                                 deleted(".config/other")],
     {".config": "protected"}),
]  # fmt: skip


@pytest.mark.parametrize(("layers", "changes", "expected"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_is_refused(layers: tuple[Policy, ...], changes: list[Change], expected: dict[str, str]) -> None:
    before = ("conf/prod.yml", "stage/prod.yml", "stage/git/config")
    found = judge(change_set(*changes), *layers, before=before, protected=PROTECTED)
    assert {each.path: each.rule for each in found.refused} == expected
    assert all(each.reason for each in found.refused)


def test_a_change_of_permissions_is_a_write() -> None:
    def chmod(path: str) -> Change:
        return Change(path, ChangeKind.MODE, FileImage("file", 0o644), FileImage("file", 0o755))

    changes = change_set(
        chmod("a"), chmod("b.env"), Change(".", ChangeKind.MODE, FileImage("folder"), FileImage("folder"))
    )
    assert judge(changes, DENYING).refused_paths == {"b.env"}


def test_an_answer_names_the_topmost_paths() -> None:
    found = judge(change_set(created(".ssh", "folder"), created(".ssh/a"), created(".ssh/b")), protected=PROTECTED)
    assert [each.path for each in found.named] == [".ssh"]


# -- what is asked about


def many(make: object, number: int) -> list[Change]:
    assert callable(make)
    return [make(f"f{position}") for position in range(number)]


BIG = 1 << 30
ASKED: list[tuple[str, list[Change], str | None]] = [
    ("nothing", [created("a"), changed("src/vscode/x"), deleted("b")], None),
    *(
        (path, [created(path)], "effects.obeyedFiles")
        for path in (".vscode/tasks.json", "sub/.idea/a.xml", ".envrc", ".mcp.json", ".claude/settings.json",
                     "a/b/.cursor/rules", ".devcontainer/devcontainer.json", ".husky/pre-commit", ".VSCode/tasks.json")
    ),
    ("a deleted one", [deleted(".envrc")], "effects.obeyedFiles"),
    ("a folder that becomes one", [moved("stage", ".vscode")], "effects.obeyedFiles"),
    ("a folder that was one", [moved(".vscode", "stage")], "effects.obeyedFiles"),
    ("an empty one", [created(".vscode", "folder")], "effects.obeyedFiles"),
    ("100 deletions", many(deleted, 100), None),
    ("101 deletions", many(deleted, 101), "effects.maxDeletions"),
    ("101 deletions of folders", [deleted(f"d{number}", "folder") for number in range(101)], None),
    ("5,000 files", many(created, 5000), None),
    ("5,001 files", many(changed, 5001), "effects.maxChanges"),
    ("1 GiB", [created("a", size=BIG)], None),
    ("more than 1 GiB", [created("a", size=BIG), created("b", size=1)], "effects.maxBytes"),
    ("objects that git packed", [deleted(f".git/objects/aa/{number}") for number in range(200)], None),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "rule"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_what_is_asked_about(changes: list[Change], rule: str | None) -> None:
    found = judge(change_set(*changes), STANDARD)
    assert not found.refused
    assert (found.ask.rule if found.ask else None) == rule
    assert judge(change_set(*changes), PERMISSIVE).ask is None
    if found.ask:
        assert (found.ask.kind, found.ask.grantable) == (VerdictKind.ASK, False)


def test_the_reason_names_what_and_how_many() -> None:
    changes = change_set(
        *(deleted(f"old/{number:03}.txt") for number in range(312)), created(".vscode", "folder"), created(".vscode/x")
    )
    found = judge(changes, STANDARD)
    assert found.ask is not None
    assert found.ask.reason == (
        "The command changes 1 file that other programs obey: .vscode/x; it deletes 312 files that were there before: "
        "old/000.txt, old/001.txt, old/002.txt, ..."
    )


@pytest.mark.parametrize(("kind", "refused", "asks"), [("allow", 0, False), ("ask", 0, True), ("deny", 1, False)])
def test_what_undo_cannot_keep(kind: str, refused: int, asks: bool) -> None:
    layer = Policy(effects=EffectsPolicy(unkept=VerdictKind(kind)))
    found = judge(change_set(changed("big.bin"), created("a")), layer, unkept=("big.bin", "elsewhere"))
    assert (len(found.refused), found.ask is not None) == (refused, asks)
    if found.ask:
        assert found.ask.rule == "effects.unkept" and "big.bin" in found.ask.reason


def test_presets_ask_about_what_undo_cannot_keep() -> None:
    for preset in (STANDARD, PERMISSIVE):
        assert judge(change_set(changed("big.bin")), preset, unkept=("big.bin",)).ask is not None


def test_what_is_refused_is_not_asked_about() -> None:
    found = judge(change_set(created(".vscode/keys.pem")), STANDARD)
    assert found.refused and found.ask is None


def test_files_in_no_repository_are_neither_looked_up_nor_read() -> None:
    def fail(path: str) -> Any:
        raise AssertionError(path)

    changes = ChangeSet(tuple(created(f"data/{number // 100}/part-{number}.csv", size=10) for number in range(6000)))
    facts = EffectFacts(PROTECTED, read=fail, existed=fail, list_below=fail)
    found = judge_changes(changes, EffectivePolicy((STANDARD,)), facts)
    assert not found.refused and found.ask is not None


# -- laws

names = st.sampled_from(["a", "b", ".env", ".git", "HEAD", "config", "hooks", "objects", "refs", "modules", ".vscode"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
kinds = st.sampled_from(["file", "folder", "link", "special"])
images = st.builds(FileImage, kind=kinds) | st.just(FileImage())


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    found = {}
    for path in draw(st.lists(paths, max_size=12, unique=True)):
        before, after = draw(images), draw(images)
        if draw(st.integers(0, 5)) == 0:
            source = draw(paths)
            if not (f"{path}/".startswith(f"{source}/") or f"{source}/".startswith(f"{path}/")):
                found[path] = moved(source, path)
        elif before.kind != "absent" or after.kind != "absent":
            kind = ChangeKind.CREATED if before.kind == "absent" else ChangeKind.CHANGED
            found[path] = Change(path, ChangeKind.DELETED if after.kind == "absent" else kind, before, after)
    return change_set(*found.values())


globs = st.sampled_from(["*.env", "a/**", "a", "**/b/*", "!a", "/b", "*"])
policies = st.builds(
    Policy,
    filesystem=st.builds(
        FilesystemPolicy,
        access=st.sampled_from(["read-write"] * 6 + ["read", "none"]),
        allowed_paths=st.none() | st.lists(st.sampled_from(["**/*", "a/**", "*"]), max_size=2).map(tuple),
        denied_paths=st.lists(globs, max_size=2).map(tuple),
        read_only_paths=st.lists(globs, max_size=2).map(tuple),
    ),
    effects=st.builds(
        EffectsPolicy,
        obeyed_files=st.lists(globs, max_size=2).map(tuple),
        max_deletions=st.none() | st.integers(0, 3),
        max_changes=st.none() | st.integers(0, 3),
        unkept=st.sampled_from(list(VerdictKind)),
    ),
    broken=st.sampled_from([None] * 9 + ["why"]),
)
workspaces = st.lists(paths, max_size=6).map(tuple)


@given(change_sets(), st.lists(policies, max_size=2), policies, workspaces)
def test_one_more_layer_applies_nothing_more_and_asks_no_less(
    changes: ChangeSet, layers: list[Policy], more: Policy, before: tuple[str, ...]
) -> None:
    one = judge(changes, *layers, before=before, protected=PROTECTED, unkept=before)
    other = judge(changes, *layers, more, before=before, protected=PROTECTED, unkept=before)
    assert one.refused_paths <= other.refused_paths
    assert other.rewritten.keys() <= one.rewritten.keys()
    if one.ask and one.refused_paths == other.refused_paths:
        assert other.ask is not None


@given(change_sets(), st.lists(policies, max_size=2), workspaces)
def test_every_change_is_applied_or_refused_and_can_be(
    changes: ChangeSet, layers: list[Policy], before: tuple[str, ...]
) -> None:
    found = judge(changes, *layers, before=before, protected=PROTECTED)
    applied = {change.path: change for change in found.select_applied(changes)}
    refused = [change for change in changes if change.path in found.refused_paths]
    assert len(applied) + len(refused) == len(changes)
    assert found.rewritten.keys() <= applied.keys()
    for change, one in product(refused, applied.values()):
        if change.after.kind == "folder" and change.kind is not ChangeKind.MODE:
            assert not one.path.startswith(f"{change.path}/"), "it has no folder to stand in"
        if change.kind is ChangeKind.DELETED and one.after.kind != "folder":
            assert not change.path.startswith(f"{one.path}/"), "a folder with something in it is not deleted"


@given(change_sets(), st.lists(policies, max_size=2))
def test_folder_by_folder_is_as_path_by_path(changes: ChangeSet, layers: list[Policy]) -> None:
    found = judge(changes, *layers, protected=PROTECTED)
    guard = PolicyGuard(PROTECTED, EffectivePolicy(tuple(layers)))
    for change in changes:
        if ".git" not in change.path.split("/"):
            image = change.after if change.after.kind != "absent" else change.before
            closed = check_path(guard, change.path, is_folder=image.kind == "folder")
            assert closed is None or change.path in found.refused_paths
