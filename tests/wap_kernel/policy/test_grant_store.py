"""What a person allowed for good: kept, shared between processes, revoked, and never more than was allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.policy import CommandForm, Grant
from wap_kernel.policy import presets
from wap_kernel.policy.grant_store import GrantStore
from wap_kernel.state.schema import connect

TOUCH = Grant(kind="command", operation="runCommand", commands=(CommandForm(words=("frob", "x"), cwd="."),))
WRITE = Grant(kind="path", operation="writeFile", paths=("a",))


def test_grants_are_kept_listed_and_revoked(tmp_path: Path) -> None:
    grants = GrantStore(str(tmp_path), "one")
    first, second = grants.add(TOUCH, "ann"), grants.add(WRITE, "ann")
    assert grants.all() == {first: TOUCH, second: WRITE}
    assert grants.revoke(first) and not grants.revoke(first)
    grants.close()
    again = GrantStore(str(tmp_path), "one")
    assert again.all() == {second: WRITE}
    again.close()


def test_a_neighbours_change_is_seen_and_other_workspaces_are_apart(tmp_path: Path) -> None:
    one, neighbour, other = (GrantStore(str(tmp_path), name) for name in ("one", "one", "other"))
    assert one.all() == {}
    identifier = neighbour.add(TOUCH, "ann")
    assert one.all() == {identifier: TOUCH}
    assert other.all() == {} and not other.revoke(identifier)
    assert neighbour.revoke(identifier)
    assert one.all() == {}
    for each in (one, neighbour, other):
        each.close()


def test_what_is_not_understood_allows_nothing(tmp_path: Path) -> None:
    grants = GrantStore(str(tmp_path), "one")
    grants.add(WRITE, "ann")
    connection = connect(str(tmp_path))
    connection.execute('UPDATE grants SET body = \'{"kind": "everything"}\'')
    connection.close()
    assert grants.all() == {}
    grants.close()


def test_a_grant_turns_ask_into_allow_and_nothing_else(make_tools: Callable[..., Any]) -> None:
    tools = make_tools(policy=presets.load_preset("standard"), provider="bubblewrap")
    shared = {"isolation": "shared"}  # where no layer confines it, an unknown program asks
    assert tools.refuse("executeCommand", command="frob x", **shared).code is Code.APPROVAL_REQUIRED
    identifier = tools.workspace.grants.add(TOUCH, "ann")
    assert tools.executeCommand(command="frob x", **shared)["exitCode"] == 127
    assert tools.refuse("executeCommand", command="frob y", **shared).code is Code.APPROVAL_REQUIRED
    assert tools.refuse("executeCommand", command="frob x; sudo id", **shared).code is Code.PERMISSION_DENIED
    tools.workspace.grants.revoke(identifier)
    assert tools.refuse("executeCommand", command="frob x", **shared).code is Code.APPROVAL_REQUIRED


def test_a_granted_command_gets_the_network_and_no_other_does(make_tools: Callable[..., Any]) -> None:
    tools = make_tools(policy=presets.load_preset("standard"), provider="bubblewrap")
    install = CommandForm(words=("pip", "install"), options=(), cwd=".")
    tools.workspace.grants.add(Grant(kind="command", operation="runCommand", commands=(install,)), "ann")
    lines = ("pip install x", "pip list", "pip install x && python3 a.py", "npm install")
    verdicts = asyncio.run(tools.workspace.check([RunCommand(command=line) for line in lines], Caller()))
    assert [(verdict.kind.value, verdict.network) for verdict in verdicts] == [
        ("allow", True),
        ("allow", False),
        ("allow", False),  # not all of it was granted the network
        ("ask", True),
    ]
