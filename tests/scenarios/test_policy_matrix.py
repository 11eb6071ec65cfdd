"""Every tool, every preset, every kind of closed path: the same verdict in process and over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import MODERN, Connect, connect, mcp_url
from tests.support.policy_calls import SECRET, Answered, Everything, commit_all, contents, lay_out
from tests.support.policy_matrix import CALLS, EXPECTED, HELD, LEFT_OUT, PLACES, UNSIZED, WITHOUT_A_PATH, expect_cells
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.policy import presets
from wap_kernel.policy.verdict import VerdictKind

__all__ = ["connect", "mcp_url"]


@pytest.fixture(params=presets.PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def wap_settings(preset: str) -> dict[str, Any]:
    return {"preset": preset, "policy": {"filesystem": {"readOnlyPaths": ["locked/**"]}}}


def test_the_matrix_leaves_out_no_tool() -> None:
    schema = OperationsMessage.model_json_schema()["properties"]["operations"]["items"]
    tools = {
        "wap": wap.TOOLS,
        "interface": interface_tools.TOOLS,
        "agent spaces": schema["discriminator"]["mapping"],
        "mcp": coding_tools.TOOLS,
    }
    named = {(call.dialect, call.tool) for call in CALLS} | WITHOUT_A_PATH.keys()
    assert named == {(dialect, tool) for dialect, names in tools.items() for tool in names}


def test_the_matrix_speaks_of_known_deeds() -> None:
    deeds = {call.deed for call in CALLS}
    for preset, places in EXPECTED.items():
        assert places.keys() == PLACES.keys(), preset
        assert {deed for cells in places.values() for deed in cells} <= deeds, preset


async def test_every_tool_on_every_closed_path(
    fetch: Any, connect: Connect, extension: Any, jp_root_dir: Path, tmp_path: Path, preset: str
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    lay_out(repository, preset)
    commit_all(repository)
    info = (await fetch("wap/api/getWorkspaceInfo", method="POST", body="{}")).body
    confines, layered = info["confinesCommands"], info["isolation"] == "layer"
    async with connect(MODERN) as client:
        everything = Everything(fetch, client, extension)
        lay_out(jp_root_dir, preset, repository)
        fresh = contents(jp_root_dir)
        for place in PLACES:
            expected = expect_cells(preset, place, layered=layered)
            said: dict[str, set[str]] = {}
            for call in CALLS:
                outcome = expected.get(call.deed)
                if outcome == UNSIZED or (outcome == HELD and not confines):
                    continue
                where = f"{call.dialect} {call.tool}, {call.deed}, {place}"
                code = None if outcome in (HELD, LEFT_OUT) else outcome
                verdict = await everything.foreseen(call, place)
                answered = await everything.answer(call, place)
                assert answered.code == code, (where, answered)
                assert (verdict.code.value if verdict.kind is VerdictKind.DENY else None) == code, (where, verdict)
                if contents(jp_root_dir) != fresh:
                    assert outcome is None, where
                    lay_out(jp_root_dir, preset, repository)
                if outcome is not None:
                    check_text(answered, place, outcome, where)
                elif (call.deed, place) == ("search all", "read-only"):
                    assert PLACES[place].file in answered.text, "what is open is found"
                if code is not None:
                    assert verdict.reason in answered.text, where
                    said.setdefault(call.deed, set()).add(answered.text.partition(". ")[0])
            assert {deed: len(texts) for deed, texts in said.items()} == dict.fromkeys(said, 1), said


def check_text(answered: Answered, place: str, outcome: str, where: str) -> None:
    """What is closed is told by nobody; what is only closed to changes, a program that runs may read."""
    if outcome == LEFT_OUT:
        assert PLACES[place].file not in answered.text and PLACES[place].folder not in answered.text, where
    else:
        assert (SECRET in answered.text) == (outcome == HELD and place == "read-only"), where
