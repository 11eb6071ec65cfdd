"""Write runs to a terminal; no file or command can draw on it or pass for a line of wap."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.html_reader import is_shown
from wap_kernel.client.render.transcript import JsonLines, Transcript, render_event, render_pending_approval
from wap_kernel.client.render.writers.palette import Palette
from wap_kernel.model.text import escape_invisible

AT = {"timestamp": "2024-01-15T10:30:00Z"}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "message", "operationId": "msg-1", "success": True}, "ok      message msg-1"),
        ({"type": "createFile", "path": "a", "success": True, "bytesWritten": 31}, "ok      createFile a (31 bytes)"),
        (
            {"type": "createFile", "path": "a", "success": False, "error": "File already exists"},
            "failed  createFile a: File already exists",
        ),
        ({"type": "editFile", "path": "a", "success": True, "editsApplied": 2}, "ok      editFile a (2 edits)"),
        (
            {"type": "shell", "command": "ls", "success": True, "exitCode": 0, "durationMs": 12},
            "ok      shell ls (exit 0, 12 ms)",
        ),
        (
            {"type": "shell", "command": "s", "success": False, "exitCode": 124, "timedOut": True, "durationMs": 9},
            "failed  shell s (exit 124, timed out, 9 ms)",
        ),
        (
            {"type": "approvalRequired", "operationType": "shell", "reason": "Why", "details": {"command": "rm -rf d"}},
            "asks    shell rm -rf d: Why",
        ),
        (
            {"type": "policyDenied", "operationType": "shell", "reason": "Not that.", "suggestion": "This."},
            "denied  shell: Not that. This.",
        ),
        ({"type": "error", "category": "system", "message": "Gone.", "details": {}}, "error   system: Gone."),
        (
            {"type": "createFile", "path": "a", "success": True, "simulated": True, "verdict": "ask", "rule": "r: a"},
            "would   createFile a (verdict ask, rule r: a)",
        ),
        (
            {
                **{"type": "approvalRequired", "operationType": "shell", "reason": "Why", "simulated": False},
                "details": {"rule": "pip install"},
            },
            "skipped shell: Why. A dry run does not do it.",
        ),
        (
            {"type": "shell", "command": "ls", "success": True, "exitCode": 0, "isolation": "shared"},
            "ok      shell ls (exit 0, shared: not undone by a revert)",
        ),
        ({"type": "createFile", "path": "a\nok", "success": True}, "ok      createFile a\\nok"),
        ({"type": "readFile", "path": "\x1b[2J\u202e", "success": True}, "ok      readFile \\x1b[2J\\u202e"),
        ({"type": "readFile", "path": "a\u3164\ufe0f", "success": True}, "ok      readFile a\\u3164\\ufe0f"),
    ],
)
def test_an_event_is_a_line(event: dict[str, Any], expected: str) -> None:
    assert render_event({**AT, **event}) == expected


class Terminal:
    def __init__(self) -> None:
        self.text = ""
        self.transcript = Transcript(self.write)

    def write(self, text: str) -> None:
        self.text += text

    def output(self, stream: str, chunk: str, operation: str = "x") -> None:
        self.transcript.show("output", {"operationId": operation, "stream": stream, "chunk": chunk})

    def shell(self, **fields: Any) -> None:
        event = {"type": "shell", "operationId": "x", "command": "c", "success": True, "exitCode": 0, **fields}
        self.transcript.show("event", {**AT, **event})


def test_output_is_shown_as_it_comes_with_a_bar() -> None:
    terminal = Terminal()
    terminal.output("stdout", "one\ntw")
    assert terminal.text == "  | one\n  | tw"
    terminal.output("stdout", "o\n")
    terminal.output("stdout", "half")
    terminal.output("stderr", "oops\n")
    terminal.output("stdout", "three")
    terminal.shell(stdout="one\ntwo\nhalfthree", stderr="oops\n")
    assert terminal.text == (
        "  | one\n  | two\n  | half\n  ! oops\n  | three\nok      shell c (exit 0)\n"  # once, not again with its event
    )


def test_output_that_did_not_come_live_is_shown_with_its_event() -> None:
    terminal = Terminal()
    terminal.shell(stdout="a\r\nb", stderr="")
    assert terminal.text == "  | a\\r\n  | b\nok      shell c (exit 0)\n"


def test_a_dry_run_shows_diffs_and_says_that_nothing_was_changed() -> None:
    terminal = Terminal()
    event = {**AT, "type": "createFile", "path": "a", "success": True, "diff": "--- a/a\n+++ b/a\n+\x1b[2J\n"}
    terminal.transcript.show("event", event)  # of one that was performed: a person has it already
    terminal.transcript.show("event", {**event, "simulated": True, "verdict": "allow"})
    terminal.transcript.end({"runId": "run_1", "status": "completed", "dryRun": True}, "")
    assert terminal.text.splitlines() == [
        "ok      createFile a",
        "would   createFile a (verdict allow)",
        "  | --- a/a",
        "  | +++ b/a",
        "  | +\\x1b[2J",
        "run_1: completed; nothing was changed",
    ]


def test_a_dry_run_lists_what_a_command_would_change() -> None:
    terminal = Terminal()
    changes = [{"path": "d\x1b[2J", "change": "deleted", "kind": "folder"}, {"path": "a", "change": "created"}]
    terminal.shell(simulated=True, verdict="ask", changes=changes, more=3)
    assert terminal.text.splitlines() == [
        "would   shell c (exit 0, verdict ask)",
        "    deleted: folder d\\x1b[2J",
        "    created: a",
        "    and 3 more",
    ]


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(min_size=1))))
def test_output_never_forges_a_line_and_loses_nothing(chunks: list[tuple[str, str]]) -> None:
    terminal = Terminal()
    for stream, chunk in chunks:
        terminal.output(stream, chunk)
    terminal.shell()
    *shown, last = terminal.text.removesuffix("\n").split("\n")
    assert last == "ok      shell c (exit 0)"
    assert all(text.startswith(("  | ", "  ! ")) for text in shown)
    assert all(is_shown(character) for character in terminal.text)
    for bar, stream in (("  | ", "stdout"), ("  ! ", "stderr")):
        told = "".join(text.removeprefix(bar) for text in shown if text.startswith(bar))
        sent = "".join(chunk for name, chunk in chunks if name == stream).replace("\n", "")
        assert told == escape_invisible(sent, "\t")


def test_json_is_one_object_a_line() -> None:
    written: list[str] = []
    lines = JsonLines(written.append)
    lines.show("event", {"type": "message", "content": "a\nb"})
    lines.show("output", {"operationId": "x", "stream": "stdout", "chunk": "c"})
    lines.show("status", {"status": "completed"})
    lines.end({"runId": "run_1", "status": "completed"}, "some advice")
    assert [json.loads(text) for text in written] == [
        {"type": "message", "content": "a\nb"},
        {"runId": "run_1", "status": "completed"},
    ]
    assert all(text.count("\n") == 1 and text.endswith("\n") for text in written)


def test_an_approval_names_what_a_person_needs() -> None:
    pending = {"approvalId": "apr_1", "operationId": "x", "command": "rm -rf d\x1b[2J", "reason": "It deletes."}
    text = render_pending_approval({"runId": "run_1", "pendingApproval": pending}, "wap ", " --root /srv")
    assert "$ rm -rf d\\x1b[2J\n" in text
    assert "to allow it   wap approve run_1 --root /srv\n" in text
    assert text.endswith("to refuse it  wap deny run_1 --root /srv")


def test_an_approval_shows_the_effect() -> None:
    changes = [
        {"path": "d", "change": "deleted", "kind": "folder"},
        {"path": "a", "change": "changed", "diff": "-x\n+y\n"},
    ]
    effect = {"exitCode": 0, "stdout": "done\n", "stderr": "hm\n", "changes": changes, "counts": {}}
    pending = {"approvalId": "apr_1", "command": "make", "boundTo": ["a", "b"], "effect": effect}
    text = render_pending_approval({"runId": "run_1", "pendingApproval": pending}, "wap ")
    assert "It deletes 1 folder, changes 1 file. " in text
    for line in ("deletes folder d", "| -x", "| +y", "| done", "! hm", "bound to      a, b"):
        assert f"{line}\n" in text


def test_colours_follow_the_outcome_and_leave_the_text_as_it_is() -> None:
    palette = Palette(is_on=True)
    event = {
        **AT,
        "type": "createFile",
        "path": "a\x1b[2J",
        "success": True,
        "simulated": True,
        "diff": "@@ -1 +1 @@\n-a\n+b\n",
    }
    written: list[str] = []
    transcript = Transcript(written.append, palette)
    transcript.show("event", event)
    transcript.show("event", {**AT, "type": "shell", "command": "c", "success": False})
    transcript.end({"runId": "run_1", "status": "completed"}, "")
    text = "".join(written)
    assert "\x1b[32mwould  \x1b[0m createFile a\\x1b[2J\n" in text
    assert "  | \x1b[36m@@ -1 +1 @@\x1b[0m\n  | \x1b[31m-a\x1b[0m\n  | \x1b[32m+b\x1b[0m\n" in text
    assert "\x1b[31mfailed \x1b[0m shell c\n" in text
    assert text.endswith("run_1: \x1b[32mcompleted\x1b[0m\n")
    uncoloured: list[str] = []
    Transcript(uncoloured.append).show("event", event)
    assert "\x1b" not in "".join(uncoloured)
