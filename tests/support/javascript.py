"""JavaScript itself, where node is installed: the reference for regexReplace."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node, the reference")

THROWS = "throws"
NO_MATCH = "no match"

_SCRIPT = """
  const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const replaced = ([text, pattern, flags, replacement]) => {
    let made;
    try { made = new RegExp(pattern, flags); } catch { return ['throws', null]; }
    if (text.search(made) < 0) return ['no match', null];
    return ['replaced', text.replace(made, replacement)];
  };
  process.stdout.write(JSON.stringify(cases.map(replaced)));
"""


def replaced(cases: Sequence[Sequence[Any]]) -> list[tuple[str, str | None]]:
    """What `text.replace(new RegExp(pattern, flags), replacement)` does in each case, in one process."""
    sent = json.dumps([list(case[:4]) for case in cases])
    answer = subprocess.run(["node", "-e", _SCRIPT], input=sent, capture_output=True, text=True, check=True)
    return [(kind, text) for kind, text in json.loads(answer.stdout)]
