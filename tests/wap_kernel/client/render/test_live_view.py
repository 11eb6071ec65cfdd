"""Render a run in progress."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from tests.support.html_reader import check
from tests.support.recorded_answers import OPERATIONS, Recorded
from wap_kernel.client.backend import RunUpdate
from wap_kernel.client.render.live_view import LONGEST_OPEN_LINE, TAIL_LINES, LiveRun


def output(chunk: str, operation: str = "x", stream: str = "stdout") -> RunUpdate:
    return RunUpdate("1", "output", {"operationId": operation, "stream": stream, "chunk": chunk})


def text(live: LiveRun, seconds: float = 1.5) -> str:
    both = live.bundle("run_1", seconds)
    check(both)
    return both["text/plain"]


def test_a_real_stream_from_beginning_to_end(recorded: Recorded) -> None:
    live = LiveRun(len(OPERATIONS), OPERATIONS)
    seen = [text(live)]
    for sent in recorded.stream:
        live.feed(sent)
        seen.append(text(live))
    assert "0 of 10" in seen[0] and "now     message" in seen[0]
    assert any("now     run seq 1 200" in one for one in seen)
    assert any("| 200" in one for one in seen)
    assert any("red plain" in one and "oops" in one for one in seen)
    assert any("%wap approve run_1" in one and "rm -rf data/" in one for one in seen)
    assert live.done == 10 and live.status == "completed"
    assert "10 of 10 · 3 failed · 1 denied · 1.5 s" in seen[-1]


def test_only_the_end_of_the_output_is_kept() -> None:
    live = LiveRun(1)
    live.feed(output("".join(f"{number}\n" for number in range(1000))))
    assert [line.strip() for line in text(live).split("\n")[3:]] == [f"| {number}" for number in range(988, 1000)]
    live.feed(output("half"))
    live.feed(output(" a line"))
    assert text(live).endswith("| half a line")
    live.feed(output("10%\r50%\r"))
    live.feed(output("90%"))
    assert text(live).endswith("| 90%")


def test_the_next_command_begins_anew() -> None:
    live = LiveRun(2)
    live.feed(output("old\n", "a"))
    live.feed(RunUpdate("2", "event", {"type": "shell", "operationId": "a", "command": "c", "success": True}))
    assert "old" not in text(live) and "1 of 2" in text(live)
    live.feed(output("new\n", "b"))
    assert "new" in text(live)


def test_a_question_goes_away_with_its_answer(recorded: Recorded) -> None:
    question = next(sent for sent in recorded.stream if sent.data.get("type") == "approvalRequired")
    live = LiveRun(1)
    live.feed(question)
    live.feed(RunUpdate("2", "status", {"status": "awaiting_approval"}))
    assert "awaiting approval" in text(live) and "%wap deny run_1" in text(live)
    assert "approve run_1" in live.bundle("run_1", 1.0, prefix="")["text/plain"]
    live.feed(RunUpdate("3", "status", {"status": "running"}))
    assert "approve" not in text(live)


@given(st.lists(st.builds(output, st.text() | st.sampled_from(["\n" * 50, "x" * 9000, "\r", "\x1b[31m"]))))
def test_it_ends_as_the_output_does(chunks: list[RunUpdate]) -> None:
    live, whole = LiveRun(1), LiveRun(1)
    for chunk in chunks:
        live.feed(chunk)
    whole.feed(output("".join(chunk.data["chunk"] for chunk in chunks)))
    assert text(live) == text(whole)


def test_a_card_stays_small_whatever_is_asked() -> None:
    live = LiveRun(1, [{"type": "shell", "command": "c" * 10**6}])
    live.feed(output("\x1b[31my" * 10**5 + "\n<&>" * 10**5))
    assert len(live.bundle("run_1", 1.0)["text/html"]) < 30_000
    details = {"command": "d" * 10**6, "cwd": "e" * 10**6, "reason": "f" * 10**6, "agent": "g" * 10**6}
    live.feed(RunUpdate("1", "event", {"type": "approvalRequired", "operationId": "x", "details": details}))
    assert len(live.bundle("run_1", 1.0)["text/html"]) < 30_000


def test_memory_does_not_grow_with_the_output() -> None:
    live = LiveRun(1)
    for _ in range(200):
        live.feed(output("x" * 65536))
        live.feed(output("\x1b[31m\n" * 1000, stream="stderr"))
    kept = [line for _, line in live._lines] + list(live._open.values())
    assert len(kept) <= TAIL_LINES + 2
    assert sum(map(sys.getsizeof, kept)) < (TAIL_LINES + 2) * (LONGEST_OPEN_LINE + 100)


def test_how_many_there_are_may_be_known_later() -> None:
    """Of a run that somebody else began, or that undoes another."""
    live = LiveRun(0)
    assert "of" not in text(live) and "[" not in text(live)
    live.feed(RunUpdate("", "begun", {"runId": "run_1", "operations": [], "total": 3}))
    live.feed(RunUpdate("1", "event", {"type": "message", "operationId": "a", "success": True}))
    assert "1 of 3" in text(live) and "[########----------------]" in text(live)
    assert "now     operation 2" in text(live)
    undo = {"type": "revert", "run": "run_2"}
    live = LiveRun(0)
    live.feed(RunUpdate("", "begun", {"runId": "run_1", "operations": [undo], "total": 1}))
    assert "0 of 1" in text(live) and "now     undo run_2" in text(live)
