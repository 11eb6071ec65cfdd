"""The project that the WAP specification's examples speak of, and how a tool is called in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TREE = {
    "README.md": "# Project\n",
    "src/app.js": "".join(f"line {number}\n" for number in range(1, 31)),
    "src/api/client.js": 'oldAPI.method(one);\napi.get("/a");\noldAPI.method(two, 2);\napi.delete("/b");\n',
    "src/components/Button.jsx": "".join(f"old {number}\n" for number in range(1, 13)),
    "src/todo.js": "a\nb\n// TODO: first\nc\nd\n",
    "src/node_modules/x/index.js": "// TODO: not ours\n",
    "node_modules/lodash/index.js": "api.get()\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    "logs/app.log": "started\n",
    "packages/frontend/package.json": "{}\n",
}


def plant(root: Path) -> Path:
    for name, text in TREE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


async def ok(call: Any, tool: str, /, **parameters: Any) -> Any:
    answer = await call(tool, **parameters)
    assert answer.status == 200, answer.body
    return answer.body
