"""What became of one operation, in words: the outcome, what it was, the facts. Pure; nothing is made safe here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wap_kernel.client.render import cutting, units
from wap_kernel.client.render.blocks import Row, Span, Tone
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
}
"""How people say it; anything else keeps its name."""
WORDS: dict[Tone, str] = {"ok": "done", "failed": "failed", "denied": "denied", "asks": "asks", "plain": "skipped"}
LONGEST_SUBJECT = 120


@dataclass(frozen=True)
class Outcome:
    tone: Tone
    verb: str
    subject: str
    detail: str
    facts: tuple[str, ...]
    said: str = ""
    """Instead of its tone's word."""
    is_operation: bool = True
    """Else it tells of the run as a whole."""

    @property
    def word(self) -> str:
        return self.said or WORDS[self.tone]

    @property
    def row(self) -> Row:
        named = [Span(self.verb)] if self.verb else []
        named += [Span(" "), Span(short(self.subject), "code")] if self.subject else []
        colon = ": " if named and self.detail else ""
        return Row((*named, Span(colon + cutting.line(self.detail))), self.tone, self.word, self.facts)


def outcome(event: Event, operation: Event) -> Outcome:
    """`operation` is what was asked for, where that is known: not every event names it."""
    kind = str(event["type"])
    if kind == "error":
        return Outcome("failed", "", "", str(event.get("message", "")), (), is_operation=False)
    if kind in ("policyDenied", "approvalRequired"):
        asked = {**operation, **event.get("details", {})}
        detail = sentences(event.get("reason"), event.get("suggestion"))
        tone: Tone = "denied" if kind == "policyDenied" else "asks"
        return Outcome(tone, verb(event.get("operationType", "")), subject(asked), detail, ())
    detail = str(event.get("error", ""))
    if kind == "message":
        detail = str(event.get("content") or operation.get("content") or event.get("operationId", ""))
    tone = "ok" if event.get("success") else "failed"
    if event.get("simulated") is False:
        tone, detail = "plain", "a dry run runs no commands"
    said = "would" if event.get("simulated") and tone == "ok" else ""
    return Outcome(tone, verb(kind), subject(event), detail, tuple(_facts(event)), said)


def not_run(operation: Event) -> Outcome:
    """Of an operation that has no event: the run had ended before it."""
    return Outcome("plain", verb(operation.get("type", "")), subject(operation), "", (), "not run")


def verb(kind: object) -> str:
    return VERBS.get(str(kind), str(kind))


def subject(event: Event) -> str:
    """What it is about: a path, two of them, or a command."""
    if event.get("source") and event.get("destination"):
        return f"{event['source']} → {event['destination']}"
    named = event.get("path") or event.get("command") or event.get("run") or event.get("query") or ""
    if isinstance(globs := event.get("include"), Sequence):
        return f"{', '.join(map(str, globs))} in {named}" if event.get("path") else str(named)
    return str(named)


def short(text: str) -> str:
    """On one line: of a script, its first."""
    first, newline, _ = text.strip().partition("\n")
    cut = first[:LONGEST_SUBJECT]
    return f"{cut} …" if newline or len(first) > LONGEST_SUBJECT else cut


def diff_facts(diff: str) -> str:
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
    facts += [units.size(event[name]) for name in ("bytesWritten", "size") if name in event]
    facts += [diff_facts(str(event["diff"]))] if event.get("diff") else []
    facts += [units.duration(event["durationMs"])] if isinstance(event.get("durationMs"), int | float) else []
    facts += ["not UTF-8: some bytes are shown replaced"] if event.get("isLossy") else []
    facts += [f"{units.counted(len(event['restored']), 'path')} restored"] if "restored" in event else []
    return facts


def sentences(*texts: object) -> str:
    """Each ended, so that they can follow one another."""
    said = [str(text) for text in texts if text]
    return " ".join(text if text.endswith((".", "!", "?", ":")) else f"{text}." for text in said)


def by_id(operations: Sequence[Event]) -> dict[str, Event]:
    """What was asked for, under the ids that events and verdicts have."""
    return dict(zip(batch_text.ids([one.get("id") for one in operations]), operations, strict=True))


def asked_about(told: Iterable[Event]) -> dict[str, Event]:
    """Operations that a person was asked about: whoever did not send them knows them by the question."""
    questions = [event for event in told if event["type"] == "approvalRequired" and "operationId" in event]
    return {str(event["operationId"]): _in_question(event.get("details", {})) for event in questions}


def _in_question(details: Event) -> Event:
    return {**details.get("operation", {}), **details}
