"""Run a Python block of docs/clients.md in the environment of its framework, with a scripted model.

python snippet.py FRAMEWORK, with `{"block", "token", "calls": [[tool, arguments], ...]}` as JSON on stdin; prints what
the model was told, a list with the text of each tool result, and the agent's last words.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import sys
from typing import Any

TASK = "Do what has to be done."


async def main(framework: str) -> None:
    given = json.load(sys.stdin)
    module = importlib.import_module(f"{framework}_model")
    seen: list[str] = []
    names: dict[str, Any] = {"token": given["token"], "model": module.build_model(given["calls"], seen), "task": TASK}
    code = compile(given["block"], "clients.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    work = eval(code, names)  # noqa: S307 - of our own document
    assert inspect.iscoroutine(work)
    await work
    sys.stdout.write(json.dumps({"results": seen, "answer": module.get_text(names["answer"])}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
