"""Summarize the event of one operation: its outcome, its subject and facts. The writers make the text safe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Row, Span, Tone
from wap_kernel.dialects.hints import reword_for_person
from wap_kernel.model.hints import address_person
from wap_kernel.runs import batch_text

Event = Mapping[str, Any]

VERBS = {
    "createFile": "create",
    "writeFile": "write",
    "readFile": "read",
    "editFile": "edit",
    "modifyFile": "edit",
    "deleteFile": "delete",
    "moveFile": "move",
    "copyFile": "copy",
    "createDirectory": "make folder",
    "shell": "run",
    "executeCommand": "run",
    "git": "run",
    "searchFiles": "search",
    "exploreFiles": "list",
    "listFiles": "list",
    "revert": "undo",
    "apply": "apply what was left of",
}
"""Words for the types of operations; other types are shown by their name."""
REPLACE_VERB = "write"
"""The word for creating a file that was there before."""
WORDS: dict[Tone, str] = {"ok": "done", "failed": "failed", "denied": "denied", "asks": "asks", "plain": "skipped"}
LONGEST_SUBJECT = 120


@dataclass(frozen=True)
class EventSummary:
    """The outcome of one event in words."""

    tone: Tone
    verb: str
    subject: str
    detail: str
    facts: tuple[str, ...]
    status_word: str = ""
    """A word that replaces the word of the tone."""
    is_operation: bool = True
    """False for an event of the run as a whole."""

    @property
    def word(self) -> str:
        return self.status_word or WORDS[self.tone]

    @property
    def row(self) -> Row:
        spans = [Span(self.verb)] if self.verb else []
        spans += [Span(" "), Span(first_line(self.subject), "code")] if self.subject else []
        colon = ": " if spans and self.detail else ""
        return Row((*spans, Span(colon + units.truncate_line(self.detail))), self.tone, self.word, self.facts)


def summarize_event(event: Event, operation: Event, reword: Callable[[str], str] = reword_for_person) -> EventSummary:
    """Summarize an event of `operation`, which may be empty; not every event names its own operation.

    `reword` words an error for the person: by default in the language of a notebook.
    """
    kind = str(event["type"])
    if kind == "error":
        message = reword(str(event.get("message", "")))
        return EventSummary("failed", "", "", message, (), is_operation=False)
    if kind in ("policyDenied", "approvalRequired"):
        details = {**operation, **event.get("details", {})}
        detail = address_person(join_sentences(event.get("reason"), event.get("suggestion")))
        tone: Tone = "denied" if kind == "policyDenied" else "asks"
        if event.get("simulated") is False:
            tone, detail = "plain", join_sentences(event.get("reason"), "A dry run does not do it")
        return EventSummary(tone, verb(event.get("operationType", "")), subject(details), detail, ())
    detail = reword(str(event.get("error", "")))
    if kind == "message":
        detail = str(event.get("content") or operation.get("content") or event.get("operationId", ""))
    tone = "ok" if event.get("success") else "failed"
    status_word = "would" if event.get("simulated") and tone == "ok" else ""
    label = REPLACE_VERB if kind == "createFile" and is_replacement(event) else verb(kind)
    return EventSummary(tone, label, subject(event), detail, tuple(_facts(event)), status_word)


def summarize_skipped(operation: Event) -> EventSummary:
    """Summarize an operation without an event, because the run ended before it."""
    return EventSummary("plain", verb(operation.get("type", "")), subject(operation), "", (), "not run")


def is_replacement(event: Event) -> bool:
    """Return whether a written file was there before: its record says so, or the first hunk of its diff."""
    if "change" in event:
        return event["change"] in ("modified", "unchanged")
    hunk = re.search(r"^@@ -(\d+(?:,\d+)?) ", str(event.get("diff", "")), re.MULTILINE)
    return hunk is not None and hunk[1] != "0,0"


def verb(kind: object) -> str:
    return VERBS.get(str(kind), str(kind))


def subject(event: Event) -> str:
    """Return the subject of an event or operation: a path, two of them, or a command."""
    if event.get("source") and event.get("destination"):
        return f"{event['source']} → {event['destination']}"
    named = event.get("path") or event.get("command") or event.get("run") or event.get("query") or ""
    if isinstance(globs := event.get("include"), Sequence):
        return f"{', '.join(map(str, globs))} in {named}" if event.get("path") else str(named)
    return str(named)


def first_line(text: str) -> str:
    """Return the first line of `text`, truncated."""
    first, newline, _ = text.strip().partition("\n")
    cut = first[:LONGEST_SUBJECT]
    return f"{cut} …" if newline or len(first) > LONGEST_SUBJECT else cut


def count_diff_lines(diff: str) -> str:
    """Return the numbers of added and removed lines of a diff."""
    added, removed = 0, 0
    for line in diff.split("\n"):
        if line.startswith("+") and not line.startswith("+++ "):
            added += 1
        elif line.startswith("-") and not line.startswith("--- "):
            removed += 1
    return f"+{added} −{removed}"  # noqa: RUF001 - a minus sign, as wide as the plus


def _facts(event: Event) -> list[str]:
    facts = [f"exit {event['exitCode']}"] if event.get("exitCode") and not event.get("timedOut") else []
    facts += ["timed out"] if event.get("timedOut") else []
    if event["type"] == "createFile" and is_replacement(event):
        facts.append("the same content" if event.get("change") == "unchanged" else "replaced")
    facts += [count_diff_lines(str(event["diff"]))] if event.get("diff") else []
    facts += [units.format_size(event[name]) for name in ("bytesWritten", "size") if name in event]
    facts += [units.format_duration(event["durationMs"])] if isinstance(event.get("durationMs"), int | float) else []
    facts += ["not UTF-8: some bytes are shown replaced"] if event.get("isLossy") else []
    left = len(event.get("refusedChanges", ())) + len(event.get("conflicts", ()))
    facts += [f"{units.format_count(left, 'change')} not applied"] if left else []
    for name in ("restored", "applied"):
        facts += [f"{units.format_count(len(event[name]), 'path')} {name}"] if name in event else []
    return facts


def join_sentences(*texts: object) -> str:
    """Join texts as sentences, each with a mark at its end."""
    sentences = [str(text) for text in texts if text]
    return " ".join(text if text.endswith((".", "!", "?", ":")) else f"{text}." for text in sentences)


def map_by_id(operations: Sequence[Event]) -> dict[str, Event]:
    """Return the operations by the ids that events and verdicts use."""
    return dict(zip(batch_text.assign_ids([one.get("id") for one in operations]), operations, strict=True))


def map_approved_operations(events: Iterable[Event]) -> dict[str, Event]:
    """Return the operations in the approvals of a run, by id: a client that did not send them finds them there."""
    approvals = [event for event in events if event["type"] == "approvalRequired" and "operationId" in event]
    return {str(event["operationId"]): _operation_of(event.get("details", {})) for event in approvals}


def _operation_of(details: Event) -> Event:
    return {**details.get("operation", {}), **details}
