"""Properties of the rendering of every result, however large or strange."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.budgets import limit_examples
from tests.support.html_reader import check
from tests.support.time_limits import cpu_time
from wap_kernel.client.render import bundle
from wap_kernel.client.results import (
    AuditRecords,
    ClientResult,
    FileText,
    GrantList,
    Listing,
    Note,
    Overview,
    PolicyReport,
    Problem,
    RunList,
    RunResult,
    SearchHits,
    VerdictList,
)

TEXT = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="\x1b[;0123456789mKJH\r\n\t<>&\"' ab", max_size=80),
    st.text(alphabet="+-@ \\ab\n", max_size=60),
    st.builds(
        lambda text, times: text * times, st.text(min_size=1, max_size=12), st.sampled_from([300, 9_000, 40_000])
    ),
)
WORD = st.text(max_size=20)
COUNT = st.integers(0, 10**12)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


EVENT = st.one_of(
    st.builds(
        lambda kind, rest: {"type": kind, **rest},
        st.one_of(st.sampled_from(["shell", "editFile", "createFile", "readFile", "message", "revert"]), WORD),
        _some(
            operationId=WORD,
            success=st.booleans(),
            path=TEXT,
            command=TEXT,
            stdout=TEXT,
            stderr=TEXT,
            content=TEXT,
            diff=TEXT,
            error=TEXT,
            exitCode=st.integers(),
            durationMs=COUNT,
            size=COUNT,
            simulated=st.booleans(),
            restored=st.lists(WORD),
            left=st.lists(TEXT),
        ),
    ),
    st.builds(
        lambda kind, reason, rest: {"type": kind, "operationType": "shell", "reason": reason, **rest},
        st.sampled_from(["policyDenied", "approvalRequired"]),
        TEXT,
        _some(operationId=WORD, suggestion=TEXT),
    ),
    st.builds(lambda message: {"type": "error", "category": "system", "message": message}, TEXT),
)
PENDING = _some(
    command=TEXT,
    diff=TEXT,
    note=TEXT,
    reason=TEXT,
    rule=TEXT,
    agent=TEXT,
    user=WORD,
    cwd=TEXT,
    remember=TEXT,
    path=TEXT,
)
RUN = st.builds(
    lambda run, status, events, rest: {"runId": run, "status": status, "events": events, **rest},
    TEXT,
    st.sampled_from(["running", "awaiting_approval", "completed", "cancelled", "error"]),
    st.lists(EVENT, max_size=6),
    _some(pendingApproval=PENDING, startedAt=WORD, dryRun=st.booleans(), reverts=TEXT),
)
FILE = st.builds(lambda content, rest: {"content": content, **rest}, TEXT, _some(totalLines=COUNT, returnedLines=COUNT))
LISTING = st.builds(
    lambda files, total: {"files": files, "totalFound": total},
    st.lists(_some(isDirectory=st.booleans()).flatmap(lambda rest: TEXT.map(lambda path: {"path": path, **rest}))),
    COUNT,
)
MATCH = st.builds(
    lambda path, line, text, around: {"path": path, "line": line, "matchText": text, "contextBefore": around},
    TEXT,
    st.integers(1, 10**6),
    TEXT,
    st.lists(TEXT, max_size=2),
)
HITS = st.builds(lambda matches, total: {"matches": matches, "totalMatches": total}, st.lists(MATCH, max_size=6), COUNT)
RUNS = st.lists(st.builds(lambda run, rest: {"runId": run, **rest}, TEXT, _some(status=WORD, agent=TEXT, user=TEXT)))
RECORD = _some(at=TEXT, tool=TEXT, outcome=WORD, error=TEXT, user=TEXT, summary=_some(path=TEXT))
LAYER = _some(name=TEXT, filesystem=_some(deniedPaths=st.lists(TEXT)), shell=_some(blockedCommands=st.lists(TEXT)))

ANSWERS: st.SearchStrategy[ClientResult] = st.one_of(
    st.builds(RunResult, RUN),
    st.builds(lambda data, path, first: FileText(data, path=path, first_line=first), FILE, TEXT, st.integers(1, 10**9)),
    st.builds(lambda data, path: Listing(data, path=path), LISTING, TEXT),
    st.builds(lambda data, pattern, regex: SearchHits(data, pattern=pattern, regex=regex), HITS, TEXT, st.booleans()),
    st.builds(lambda runs: RunList({"runs": runs}), RUNS),
    st.builds(lambda records: AuditRecords({"records": records}), st.lists(RECORD)),
    st.builds(
        lambda layers: PolicyReport({"layers": layers, "effective": {"shell": True}}), st.lists(LAYER, max_size=4)
    ),
    st.builds(lambda root, name: Overview({"workspace": {"root": root}, "endpoint": {"name": name}}), TEXT, TEXT),
    st.builds(lambda reason, rule: VerdictList({"verdicts": [{"reason": reason, "rule": rule}]}), TEXT, TEXT),
    st.builds(lambda grants: GrantList({"grants": grants}), st.lists(_some(id=TEXT, allows=TEXT, createdBy=TEXT))),
    st.builds(Problem, _some(error=TEXT, hint=TEXT, code=WORD, line=COUNT)),
    st.builds(Note, _some(text=TEXT)),
)


@limit_examples(60)
@given(ANSWERS)
def test_a_bundle_is_small_safe_and_visible(answer: ClientResult) -> None:
    check(bundle(answer))


def _run(*events: dict[str, Any]) -> RunResult:
    return RunResult({"runId": "run_1", "status": "completed", "events": list(events)})


def _shell(stdout: str) -> dict[str, Any]:
    return {"type": "shell", "command": "c", "success": True, "stdout": stdout}


COLOURED = "".join(f"\x1b[38;2;{n % 256};{n % 199};7m{n}\x1b[0m " + "\n" * (n % 9 == 0) for n in range(6_000))
LARGE = {
    "output": _run(_shell("x" * 99 + "\n") | {"stdout": ("x" * 99 + "\n") * 1_000}),
    "colours": _run(_shell(COLOURED)),
    "one long line": _run(_shell("y" * 1_000_000)),
    "markup": _run(_shell("<&>'\"\n" * 30_000)),
    "wide letters": FileText({"content": "漢字\u200b\n" * 40_000}, path="a"),
    "a thousand operations": _run(
        *({"type": "createFile", "path": f"folder/file{n}.txt", "success": n % 7 != 0} for n in range(1_000))
    ),
    "a thousand commands": _run(*(_shell(f"{n}\n" * 50) for n in range(1_000))),
    "entries": Listing({"files": [{"path": f"d{n % 40}/f{n}"} for n in range(5_000)], "totalFound": 5_000}, path="."),
    "hits": SearchHits(
        {
            "matches": [{"path": f"f{n // 9}", "line": n, "matchText": "ab" * 200} for n in range(900)],
            "totalMatches": 900,
        },
        pattern="ab",
    ),
    "records": AuditRecords({"records": [{"tool": "shell", "outcome": "ok", "error": "e" * 500}] * 1_000}),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_cut_and_says_so(name: str) -> None:
    answer = LARGE[name]
    both = bundle(answer)
    page = check(both)
    for written in (both["text/plain"], page.text):
        assert "…" in written


def test_what_is_large_says_where_the_rest_is() -> None:
    assert "_.to_dict() holds them" in bundle(LARGE["output"])["text/plain"]
    assert "_.events holds them all" in bundle(LARGE["a thousand operations"])["text/plain"]


def test_problems_are_shown_before_what_went_well() -> None:
    events = [{"type": "createFile", "path": f"f{n}", "success": n != 500} for n in range(1_000)]
    both = bundle(_run(*events))
    assert "failed  create f500" in both["text/plain"]
    assert "create f500" in check(both).text


def test_a_cruel_pattern_does_not_hang() -> None:
    match = {"path": "a", "line": 1, "matchText": "a" * 40 + "!", "contextBefore": [], "contextAfter": []}
    for pattern in ("(a+)+$", "(a|a)*$", "(((a{99}){99}){99}){99}", "(" * 190, "a{1,99999}{1,99999}"):
        hits = SearchHits({"matches": [match] * 50, "totalMatches": 50}, pattern=pattern, regex=True)
        with cpu_time(20):
            check(bundle(hits))


def test_importing_it_loads_nothing_heavy() -> None:
    code = """
import sys
from wap_kernel.client.render import bundle
import wap_kernel.client.render.live_view
heavy = {"pydantic", "yaml", "regex", "http.client", "ssl", "asyncio", "IPython", "jupyter_server"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
