"""The benchmarks run, clean up after themselves and judge correctly. How fast anything is, is not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import trees
from benchmarks.__main__ import GROUPS
from benchmarks.peers import CALLS, MCP, McpFilesystem
from benchmarks.table import Figure, Row, Target, compared, render
from benchmarks.timing import interleaved, quantile

REPOSITORY = Path(__file__).resolve().parent.parent


def test_a_quick_run_measures_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.removeprefix("measuring: ") for line in done.stderr.splitlines()] == list(GROUPS)
    rows = json.loads(done.stdout)["rows"]
    assert {row["peer"] for row in rows} - {None} == set(CALLS)
    # The memory of a server may not grow at all in a quick run.
    assert [row for row in rows if row["ours"]["value"] <= 0 and not row["what"].startswith("growth")] == []
    assert all(row["theirs"]["value"] > 0 for row in rows if row["theirs"])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_group_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "nothing"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "choose from" in done.stderr


@pytest.mark.parametrize(
    ("target", "ours", "theirs", "met"),
    [
        (Target(ratio=1.25), 125, 100, True),
        (Target(ratio=1.25), 126, 100, False),
        (Target(absolute=60), 60, None, True),
        (Target(absolute=60), 61, None, False),
        (Target(ratio=4, absolute=20), 19, 1, True),
        (Target(ratio=4, absolute=20), 39, 10, True),
        (Target(ratio=4, absolute=20), 41, 10, False),
    ],
)
def test_targets(target: Target, ours: float, theirs: float | None, met: bool) -> None:
    assert target.is_met(ours, theirs) is met
    peer = "" if theirs is None else "peer"
    row = Row("what", Figure(ours), peer, None if theirs is None else Figure(theirs), target)
    assert row.verdict == ("met" if met else "MISSED")


def test_a_peer_that_is_not_installed_is_named_and_not_judged() -> None:
    (row,) = compared("what", {"ours": [1.0]}, {MCP: Target(ratio=1)})
    assert row.verdict == "not measured"
    assert "not installed" in render([row])


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    times = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert "".join(calls) == "abab" + "ab" + "ba" + "ab"
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


@pytest.mark.parametrize(("part", "expected"), [(0.0, 1), (0.1, 11), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_quantile(part: float, expected: float) -> None:
    assert quantile(list(range(100, 0, -1)), part) == expected


def test_a_tree_is_the_same_every_time_and_holds_more_matches_than_an_answer(tmp_path: Path) -> None:
    first, second = (trees.sources(tmp_path / name, 100) for name in ("first", "second"))
    texts = [path.read_text() for path in sorted(first.rglob("*.py"))]
    assert texts == [path.read_text() for path in sorted(second.rglob("*.py"))]
    assert len(texts) == 100
    assert sum(text.count(trees.NEEDLE) for text in texts) > 100


_MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
    result = {"content": message["params"].get("arguments"), "isError": message["params"].get("name") == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_mcp_client(tmp_path: Path) -> None:
    with McpFilesystem(tmp_path, [sys.executable, "-c", _MCP_SERVER]) as mcp:
        assert mcp.call("read_text_file", path="x")["content"] == {"path": "x"}
        with pytest.raises(RuntimeError, match="fail failed"):
            mcp.call("fail")
