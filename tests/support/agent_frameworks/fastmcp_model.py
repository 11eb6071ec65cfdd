"""A scripted model for the client of fastmcp, which has no agent: `run` calls one tool after the other."""

from __future__ import annotations

from typing import Any


class ScriptedCaller:
    def __init__(self, calls: list[Any], seen: list[str]) -> None:
        self.calls = calls
        self.seen = seen

    async def run(self, call_tool: Any) -> str:
        for tool, values in self.calls:
            result = await call_tool(tool, values)
            self.seen.append("\n".join(part.text for part in result.content))
        return "Done."


def build_model(calls: list[Any], seen: list[str]) -> ScriptedCaller:
    return ScriptedCaller(calls, seen)


def get_text(answer: Any) -> str:
    return str(answer)
