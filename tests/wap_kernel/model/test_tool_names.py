"""confirmationRequired: every tool of every dialect can be named, and then what it does asks."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.operations import (
    DeleteFile,
    ListFiles,
    Message,
    ModifyFile,
    Operation,
    ReadFile,
    RevertRun,
    RunCommand,
    SearchFiles,
    WriteFile,
)
from wap_kernel.model.tool_names import OLDER_KEYS, OPERATIONS_BY_TOOL, find_confirming_tool
from wap_kernel.policy.parse import parse_policy

_BATCH: tuple[Any, ...] = get_args(get_args(agent_spaces.AnyOperation)[0])
BATCHED = tuple(get_args(one.model_fields["type"].annotation)[0] for one in _BATCH)
NAMES = sorted({*wap.TOOLS, *coding_tools.TOOLS, *interface_tools.TOOLS, *BATCHED})
OPERATIONS: tuple[Operation, ...] = (
    Message(content="x"),
    ReadFile(path="a"),
    ListFiles(path="."),
    SearchFiles(paths=(".",), query="x"),
    WriteFile(path="a", content=b""),
    ModifyFile(path="a", edits=()),
    DeleteFile(path="a"),
    RunCommand(command="ls"),
    RevertRun(run="run_1"),
)


def test_the_table_has_the_tools_of_all_dialects_and_no_other() -> None:
    assert sorted(OPERATIONS_BY_TOOL) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_may_name_every_tool(name: str) -> None:
    policy = parse_policy(json.dumps({"confirmationRequired": [name]}).encode(), ".cws-policy.json")
    assert (policy.broken, policy.confirmation_required) == (None, (name,))
    assert bool(OPERATIONS_BY_TOOL[name]) is (name not in ("getRun", "getOutput", "cancelRun")), (
        "looking at a run and ending it is all that leaves nothing to confirm"
    )


@pytest.mark.parametrize(
    ("key", "kinds"),
    [("delete", {"deleteFile", "revert"}), ("applyPatch", {"modifyFile", "revert"}), ("task.run", {"runCommand"})],
)
def test_the_older_keys_are_understood(key: str, kinds: set[str]) -> None:
    policy = parse_policy(json.dumps({"confirmationRequired": [key]}).encode(), ".cws-policy.json")
    assert (policy.broken, policy.confirmation_required) == (None, (key,))
    assert _asking(key) == kinds
    assert not OLDER_KEYS.keys() & OPERATIONS_BY_TOOL.keys()


def _asking(name: str) -> set[str]:
    return {operation.kind for operation in OPERATIONS if find_confirming_tool((name,), operation) == name}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("globFiles", {"listFiles"}),
        ("message", {"message"}),
        ("getRun", set()),
        ("runOperations", {"readFile", "writeFile", "modifyFile", "deleteFile", "runCommand", "revert"}),
    ],
)
def test_what_asks(name: str, kinds: set[str]) -> None:
    assert _asking(name) == kinds


def test_whatever_a_batch_does_is_what_run_operations_stands_for() -> None:
    """A message does nothing."""
    for name in set(BATCHED) - {"message"}:
        assert _asking(name) <= _asking("runOperations")
