"""An agent of pydantic-ai's, with a function for a model. Prints what it did as JSON. See test_agent.py.

python agent_program.py URL TOKEN, with the Python of .venv-peers
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

TESTS = ("runCommand", {"command": "python3", "args": ["-m", "unittest", "-v"]})
Work = Generator[tuple[str, dict[str, Any]], Any, str]


def work() -> Work:
    """What a model would think: each step follows from what the one before has brought."""
    failed = yield TESTS
    name = re.findall(r"\bself\.assertEqual\((\w+)\(", failed["stderr"])[0]
    found = yield "searchFiles", {"query": f"def {name}(", "options": {"globs": ["**/*.py"]}}
    path = found["results"][0]["path"]
    read = yield "readFile", {"path": path}
    (wrong,) = re.findall(r"return .*range\(n\).*", read["content"])
    right = wrong.replace("range(n)", "range(n + 1)")
    edits = [{"oldText": wrong, "newText": right}]
    yield "editFile", {"path": path, "edits": edits, "expectedHash": read["hash"]}
    passed = yield TESTS
    status = yield "git", {"action": "status"}
    (changed,) = [change["path"] for change in status["changed"]]
    assert changed == path, status
    refused = yield "git", {"action": "commit", "message": f"{name} counts to n", "files": [path]}
    asked = re.search(r"getRun (run_\w+)", str(refused))
    assert asked, refused
    run = yield "getRun", {"runId": asked[1], "wait": 60}
    return json.dumps({"before": failed["exitCode"], "after": passed["exitCode"], "commit": run["response"]})


class Model:
    """Hands what the tools have answered to the work, and what the work wants to the agent."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self._work = work()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.tools = sorted(tool.name for tool in info.function_tools)
        part = messages[-1].parts[-1]
        answer = part.content if isinstance(part, ToolReturnPart | RetryPromptPart) else None
        try:
            tool, arguments = self._work.send(answer)
        except StopIteration as end:
            return ModelResponse(parts=[TextPart(end.value)])
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])


def main(url: str, token: str) -> None:
    model = Model()
    tools = MCPToolset(url, headers={"Authorization": f"Bearer {token}"})
    agent = Agent(FunctionModel(model), toolsets=[tools])
    said = json.loads(agent.run_sync("The tests fail. Find out why, correct it and commit.").output)
    sys.stdout.write(json.dumps({"tools": model.tools, **said}))


if __name__ == "__main__":
    main(*sys.argv[1:])
