"""Test the verdicts on pushes: a setting protects branches, and policy can block each verb by its name. No remote."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_interface import AGENT, OPEN, opened
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.git.operations import GitTransfer
from wap_kernel.model.policy import CommandRule, Policy, ShellPolicy
from wap_kernel.policy import presets
from wap_kernel.policy.git_remotes import PROTECTED_BRANCHES

URL = "https://github.com/ada/engine.git"
ASKS = Policy(name="house", shell=ShellPolicy(rules=(CommandRule(command="git push", verdict="ask"),)))


def said(folder: Path, *pushes: dict[str, Any], policy: Policy = OPEN, **settings: Any) -> list[tuple[str, str]]:
    """The verdict and its rule, for each push."""
    with opened(folder, policy=policy, git=GitSettings(**settings)) as tools:
        judge = tools.workspace.judge
        verdicts = [judge.check(GitTransfer(action="push", **fields), AGENT) for fields in pushes]
    return [(verdict.kind.value, verdict.rule) for verdict in verdicts]


def test_which_branches_are_protected_is_a_setting(tmp_path: Path) -> None:
    asks = ("ask", "git.push.protected")
    pushes: list[dict[str, Any]] = [{"branch": "main"}, {"branch": "trunk"}, {"branch": "v/1/x"}, {}]
    assert said(tmp_path, *pushes) == [asks, ("allow", "default"), ("allow", "default"), asks]
    assert said(tmp_path, *pushes, protected=("trunk", "v/*")) == [("allow", "default"), asks, asks, asks]
    assert said(tmp_path, *pushes, protected=()) == [("allow", "default")] * 4


def test_the_policy_tells_them(tmp_path: Path) -> None:
    settings = GitSettings(allowed=("https://github.com/ada/*",), protected=("trunk",))
    with opened(tmp_path, git=settings) as tools:
        told = asyncio.run(tools.workspace.describe_policy(AGENT))
    assert told["git"] == {"remotes": ["https://github.com/ada/*"], "protectedBranches": ["trunk"]}
    assert GitSettings().to_dict() == {"remotes": [], "protectedBranches": [*PROTECTED_BRANCHES]}


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("git.push.protected", {"branch": "main"}),
        ("git.push.force", {"branch": "x", "force": True}),
        ("git.push.delete", {"branch": "x", "delete": True}),
    ],
)
def test_each_verb_asks_and_can_be_blocked_by_its_name(tmp_path: Path, verb: str, fields: dict[str, Any]) -> None:
    blocking = Policy(name="house", shell=ShellPolicy(blocked_commands=(verb,)))
    assert said(tmp_path, fields, {"branch": "x"}) == [("ask", verb), ("allow", "default")]
    assert said(tmp_path, fields, {"branch": "x"}, policy=blocking) == [("deny", verb), ("allow", "default")]


@pytest.mark.parametrize("policy", [ASKS, presets.load_preset("standard")], ids=["house", "standard"])
def test_where_every_push_asks_the_question_names_the_verb(tmp_path: Path, policy: Policy) -> None:
    pushes: list[dict[str, Any]] = [
        *({"branch": "main"}, {}, {"branch": "x", "force": True}, {"branch": "x", "delete": True}, {"branch": "x"})
    ]
    rules = [rule for _, rule in said(tmp_path, *pushes, policy=policy)]
    assert rules == ["git.push.protected", "git.push.protected", "git.push.force", "git.push.delete", "git push"]


@pytest.mark.parametrize(
    ("fields", "remembered"),
    [
        ({"url": URL, "branch": "x"}, f"git push {URL} x"),
        ({"url": URL, "branch": "x", "folder": "sub"}, f"git push {URL} x (in sub)"),
        # what stands in the repository decides where these go, or what they take along
        ({"branch": "x"}, None),
        ({"url": URL}, None),
        ({"url": URL, "branch": "main"}, None),
        ({"url": URL, "branch": "x", "force": True}, None),
        ({"url": URL, "branch": "x", "delete": True}, None),
    ],
)
def test_what_can_be_allowed_for_good(tmp_path: Path, fields: dict[str, Any], remembered: str | None) -> None:
    push = GitTransfer(action="push", **fields)
    with opened(tmp_path, policy=ASKS) as tools:
        grant = tools.workspace.judge.grant_for(push, AGENT)
        assert (None if grant is None else grant.text) == remembered
        if grant is None:
            return
        tools.workspace.grants.add(grant, "ada")
        judge = tools.workspace.judge
        assert judge.check(push, AGENT).rule == "grant"
        others: tuple[dict[str, Any], ...] = (
            {"branch": "y"},
            {"url": "https://github.com/ada/other.git"},
            {"force": True},
            {"delete": True},
            {"url": None},
            {"branch": "main"},
            {"folder": "elsewhere"},
        )
        for other in others:
            assert judge.check(push.model_copy(update=other), AGENT).kind.value == "ask", other
