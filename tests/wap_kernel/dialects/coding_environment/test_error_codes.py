"""The code of a refusal where several would fit, and how much of the request it quotes."""

from __future__ import annotations

from typing import Any

from tests.support.coding_environment import Coding, play


def test_a_closed_folder_is_no_command_that_is_not_allowed(coding: Coding) -> None:
    (coding.root / "closed").mkdir()
    (coding.root / "sub").mkdir()
    coding.policy(deniedPaths=["closed"], allowedCommands=["pwd"])

    async def scenario(coding: Coding) -> None:
        async def code(**arguments: Any) -> int:
            return (await coding.refuse("runCommand", {"command": "pwd", **arguments})).code

        assert await code(command="ls") == -32004
        assert await code(options={"cwd": "closed"}) == -32002
        assert await code(workspaceRoot="closed") == -32002
        (coding.root / "sub/.cws-policy.json").write_text("{")
        assert await code(workspaceRoot="sub") == -32002

    play(coding, scenario)


def test_no_name_is_told_again_at_any_length(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        env = {f"LD_{'x' * 100_000}": "a"}
        error = await coding.refuse("runCommand", {"command": "pwd", "options": {"env": env}})
        assert len(error.message) + len(str(error.data)) < 5_000

    play(coding, scenario)
