"""Grants are narrow: what a person allowed for good is covered, and nothing that does more or something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.grant_workspace import ASKING, grantable, granted, rule, run, shell, verdict
from wap_kernel.model.edits import InsertLines
from wap_kernel.model.operations import (
    CopyFile,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.policy import Grant, NetworkPolicy, Policy
from wap_kernel.policy import presets
from wap_kernel.policy.decide import VerdictKind
from wap_kernel.policy.grant_store import decode_grant


def write(path: str, content: bytes = b"12345", **more: Any) -> WriteFile:
    return WriteFile(path=path, content=content, **more)


def move(source: str, destination: str, **more: Any) -> MoveFile:
    return MoveFile(source=source, destination=destination, **more)


FILES = Policy(confirmation_required=("writeFile", "deleteFile", "moveFile", "copyFile", "listFiles"))
EDIT = ModifyFile(path="a", edits=(InsertLines(after_line=0, new_content="x"),))


# -- paths

PATHS: list[tuple[Operation, Operation, bool]] = [
    # what a person allowed for good, what is asked then, whether that is allowed
    (write("a"), write("a", b"other"), True),
    (write("a"), write("b"), False),
    (write("a"), EDIT, False),
    (EDIT, write("a"), False),
    (write("link.txt"), write("important.py"), True),
    (write("a", mode="overwrite"), write("a", mode="append"), True),
    (write("a", mode="append"), write("a", mode="create"), True),
    (write("a", mode="append"), write("a", mode="overwrite"), False),
    (write("a", mode="create"), write("a", mode="append"), False),
    (write("a", mode="create"), write("a", mode="overwrite"), False),
    (move("a", "b"), move("b", "a"), False),
    (move("a", "b"), move("a", "b", overwrite=True), False),
    (move("a", "b", overwrite=True), move("a", "b"), True),
    (move("a", "b"), CopyFile(source="a", destination="b"), False),
    (DeleteFile(path="a"), DeleteFile(path="a", recursive=True), False),
    (DeleteFile(path="a", recursive=True), DeleteFile(path="a"), True),
    (ListFiles(path="a"), ListFiles(path="a", recursive=True), False),
]


@pytest.mark.parametrize(("allowed", "asked", "covers"), PATHS)
def test_a_grant_is_for_one_kind_of_operation_on_one_path(allowed: Operation, asked: Operation, covers: bool) -> None:
    grant = granted(allowed, FILES)
    assert verdict(allowed, FILES, grants=(grant,)).kind is VerdictKind.ALLOW
    assert (verdict(asked, FILES, grants=(grant,)).kind is VerdictKind.ALLOW) is covers


def test_a_path_that_became_a_link_is_another_path() -> None:
    grant = granted(write("a"), FILES)
    assert verdict(write("a"), FILES, grants=(grant,)).kind is VerdictKind.ALLOW
    assert verdict(write("a"), FILES, grants=(grant,), a="important.py").kind is VerdictKind.ASK


# -- commands

LINES = (Path(__file__).parent / "commands" / "cases" / "grants.txt").read_text().splitlines()
ROWS = [[cell.strip().replace("\\|", "|") for cell in line.split(" | ")] for line in LINES if line and line[0] != "#"]


@pytest.mark.parametrize(("allowed", "asked", "covers"), ROWS)
def test_a_grant_is_for_one_form_of_a_command(allowed: str, asked: str, covers: str) -> None:
    grant = granted(run(allowed), ASKING)
    assert verdict(run(allowed), ASKING, grants=(grant,)).kind is VerdictKind.ALLOW
    assert verdict(run(asked), ASKING).kind is VerdictKind.ASK
    assert verdict(run(asked), ASKING, grants=(grant,)).kind is (
        VerdictKind.ALLOW if covers == "yes" else VerdictKind.ASK
    )


@pytest.mark.parametrize("command", ["rm a", "pip install numpy"])
def test_a_grant_is_for_one_folder_and_no_variables(command: str) -> None:
    grants = (granted(run(command, cwd="sub"), ASKING),)
    assert verdict(run(command, cwd="sub"), ASKING, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(run(command, cwd="here"), ASKING, grants=grants).kind is VerdictKind.ALLOW  # a link to it
    assert verdict(run(command, cwd="sub"), ASKING, grants=grants, sub="other").kind is VerdictKind.ASK
    assert verdict(run(command), ASKING, grants=grants).kind is VerdictKind.ASK
    assert verdict(run(command, cwd="sub", environment={"A": "1"}), ASKING, grants=grants).kind is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("rm $X", "rm *", "frob ~/x", "frob > ~/x", "rm $(ls)", "X=1 frob", "cd sub && frob", "ls | frob"),
        *("frob <<EOF\nx\nEOF", "bash -c 'frob x'", "echo a | xargs frob", "find . -exec frob {} +"),
        *("uv run sudo id", "uv run /usr/bin/sudo id", "uv run SUDO id", "uv run sh -c 'ls;sudo id'", "uv run nc.old"),
    ],
)
def test_what_cannot_be_granted(command: str) -> None:
    blocking = shell(blocked_commands=("sudo", "nc.*"))
    found = verdict(run(command), ASKING, blocking)
    assert (found.kind, found.grantable) == (VerdictKind.ASK, False)
    assert grantable(run(command), ASKING, blocking) is None


def test_a_program_that_is_blocked_later_takes_the_grant_along() -> None:
    grants = (granted(run("uv run curl x"), ASKING),)
    blocking = shell(blocked_commands=("curl",))
    assert verdict(run("uv run curl x"), ASKING, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(run("uv run curl x"), ASKING, blocking, grants=grants).kind is VerdictKind.ASK


def test_words_for_people_name_no_program() -> None:
    standard = presets.load_preset("standard")
    grant = granted(run("git commit -m one"), standard)
    assert verdict(run("git commit -m 'No mount over ssh'"), standard, grants=(grant,)).kind is VerdictKind.ALLOW


def test_a_confirmed_command_is_granted_like_one_that_a_rule_asks_about() -> None:
    confirming = Policy(confirmation_required=("runCommand",))
    grants = (granted(run("ls"), confirming),)
    assert verdict(run("ls"), confirming, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(run("ls; cat x"), confirming, grants=grants).kind is VerdictKind.ASK
    assert verdict(run("X=1 ls"), confirming, grants=grants).kind is VerdictKind.ASK


def test_a_granted_command_keeps_its_network() -> None:
    layer = shell(rule("git push", "ask", network=True)).model_copy(update={"network": NetworkPolicy(access="none")})
    found = verdict(run("git push"), layer, grants=(granted(run("git push"), layer),))
    assert (found.kind, found.rule, found.network) == (VerdictKind.ALLOW, "grant", True)


def test_grants_add_up() -> None:
    both = run("git push && rm a")
    grants = (granted(run("rm a"), ASKING), granted(run("git push"), ASKING))
    assert verdict(both, ASKING, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(both, ASKING, grants=grants[:1]).kind is VerdictKind.ASK


def test_a_grant_never_undoes_a_denial_nor_a_rule_that_is_not_grantable() -> None:
    grant = granted(run("git push"), ASKING)
    denying = shell(rule("git push", "deny"))
    insisting = shell(rule("git push", "ask", grantable=False))
    assert verdict(run("git push"), ASKING, denying, grants=(grant,)).kind is VerdictKind.DENY
    for layers in ((insisting,), (ASKING, insisting)):
        found = verdict(run("git push"), *layers, grants=(grant,))
        assert (found.kind, found.grantable) == (VerdictKind.ASK, False)
        assert grantable(run("git push"), *layers) is None


def test_there_is_no_grant_for_what_needs_none_or_names_no_path() -> None:
    assert grantable(run("ls"), ASKING) is None
    assert grantable(DescribeWorkspace(), Policy(confirmation_required=("getWorkspaceInfo",))) is None


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (run("rm 'a b'"), "rm 'a b'"),
        (run("frob x > out.txt", cwd="here"), "frob x > out.txt (in sub)"),
        (run("pip install numpy -U"), "pip install -U ..."),
        (run("git fetch origin main && git push"), "git fetch origin ..., git push"),
        (write("link.txt", mode="append"), "writeFile important.py (append)"),
        (DeleteFile(path="a"), "deleteFile a"),
        (move("a", "b", overwrite=True), "moveFile a, b (overwrite)"),
    ],
)
def test_it_says_what_it_allows(operation: Operation, text: str) -> None:
    assert granted(operation, ASKING, FILES).text == text


def test_stored_grants_load_and_allow_no_more_than_they_say() -> None:
    wide = '{"kind":"command","operation":"runCommand","commands":[{"words":["git","push"],"options":[],"cwd":null}]}'
    words = '{"kind":"command","operation":"runCommand","commands":[{"words":["rm","a"],"options":null,"cwd":"."}]}'
    path = '{"kind":"path","operation":"writeFile","paths":["a"],"commands":[]}'
    assert decode_grant(wide) is None, "a form without a folder is not known"
    grants = tuple(map(Grant.model_validate_json, (words, path)))
    assert [grant.text for grant in grants] == ["rm a", "writeFile a"]
    assert verdict(run("rm a"), ASKING, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(run("rm a > b"), ASKING, grants=grants).kind is VerdictKind.ASK
    assert verdict(write("a", mode="create"), FILES, grants=grants).kind is VerdictKind.ALLOW
    assert verdict(write("a"), FILES, grants=grants).kind is VerdictKind.ASK
