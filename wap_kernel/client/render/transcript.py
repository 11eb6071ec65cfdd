"""Write a run to a terminal: a line for each event, and the output of a command while it runs.

Control characters are escaped, and every line of output has a bar in front: no file or command of a workspace can move
the cursor, or pass for a line of wap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from wap_kernel.client.render.effect_text import summarize_effect
from wap_kernel.model.text import escape_invisible, escape_one_line

Write = Callable[[str], object]
Event = Mapping[str, Any]

BARS = {"stdout": "  | ", "stderr": "  ! "}
NOUNS = {"bytesWritten": "bytes", "size": "bytes", "editsApplied": "edits", "durationMs": "ms"}
"""The units of the numbers in an event."""
MAX_CHANGES = 50
"""Changed paths that are listed."""
MAX_DIFFS = 20
MAX_TEXT_CHARACTERS = 4_000
"""Characters of one diff, and of one stream of output, in an approval."""


class JsonLines:
    """An output for programs: a JSON object on each line, first the events and last the events message."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def show(self, name: str, data: Event) -> None:
        if name == "event":
            self._write(json.dumps(data) + "\n")

    def end(self, message: Event, advice: str) -> None:
        self._write(json.dumps(message) + "\n")


class Transcript:
    """An output for people."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._streamed: set[tuple[str, str]] = set()
        """Operations and streams whose output was written while they ran."""
        self._open: str | None = None
        """The stream whose last line has not ended."""

    def show(self, name: str, data: Event) -> None:
        if name == "output":
            self._output(str(data["operationId"]), str(data["stream"]), str(data["chunk"]))
        elif name == "event":
            self._event(data)

    def end(self, message: Event, advice: str) -> None:
        self._close_line()
        what = "; nothing was changed" if message.get("dryRun") else ""
        self._write(f"{message['runId']}: {str(message['status']).replace('_', ' ')}{what}\n")
        if advice:
            self._write(advice + "\n")

    def _event(self, event: Event) -> None:
        if event["type"] == "shell":
            for stream in BARS:
                if (event.get("operationId"), stream) not in self._streamed:
                    self._output(str(event.get("operationId")), stream, str(event.get(stream, "")))
        self._close_line()
        self._write(render_event(event) + "\n")
        if "simulated" in event:
            for detail in (event[name] for name in ("note", "diff") if event.get(name)):
                self._write(f"{BARS['stdout']}{_indent(str(detail))}\n")
            if event.get("changes"):
                self._write("".join(f"{line}\n" for line in _list_changes(event)))

    def _output(self, operation_id: str, stream: str, chunk: str) -> None:
        if not chunk:
            return
        self._streamed.add((operation_id, stream))
        if self._open != stream:
            self._close_line()
        for piece in re.findall(r"[^\n]*\n|[^\n]+", chunk):
            bar = BARS[stream] if self._open is None else ""
            self._write(bar + escape_invisible(piece))
            self._open = None if piece.endswith("\n") else stream

    def _close_line(self) -> None:
        if self._open is not None:
            self._write("\n")
            self._open = None


def render_event(event: Event) -> str:
    """Return an event on one line: its outcome, subject and facts."""
    kind = str(event["type"])
    if kind == "approvalRequired":
        is_skipped = event.get("simulated") is False
        reason = f"{event['reason']}. A dry run does not do it." if is_skipped else event["reason"]
        outcome = "skipped" if is_skipped else "asks"
        return _join(outcome, event["operationType"], _subject(event.get("details", {})), reason)
    if kind == "policyDenied":
        return _join("denied", event["operationType"], "", f"{event['reason']} {event.get('suggestion', '')}")
    if kind == "error":
        return _join("error", event["category"], "", event["message"])
    facts = [f"exit {event['exitCode']}"] if "exitCode" in event else []
    facts += ["timed out"] if event.get("timedOut") else []
    facts += ["shared: not undone by a revert"] if event.get("isolation") == "shared" else []
    facts += [f"{event[name]} {noun}" for name, noun in NOUNS.items() if name in event]
    if "simulated" in event:
        facts += [f"{name} {event[name]}" for name in ("verdict", "rule") if event.get(name)]
    detail = str(event.get("error", "")) + (f" ({', '.join(facts)})" if facts else "")
    return _join(_outcome(event), kind, _subject(event), detail)


def _outcome(event: Event) -> str:
    if not event.get("success"):
        return "failed"
    return "would" if event.get("simulated") else "ok"


def _subject(event: Event) -> str:
    return str(event.get("path") or event.get("command") or event.get("source") or event.get("operationId") or "")


def _join(outcome: str, kind: object, subject: str, detail: str) -> str:
    named = " ".join(part for part in (f"{outcome:7}", str(kind), subject) if part)
    detail = detail.strip()
    separator = "" if not detail else " " if detail.startswith("(") else ": "
    return escape_one_line(f"{named}{separator}{detail}")


def render_pending_approval(message: Event, where: str) -> str:
    """Return the pending approval of a run, and how a person decides it.

    `where` is the address of the server, or how to get one.
    """
    pending = message["pendingApproval"]
    body = json.dumps({"approvalId": pending["approvalId"], "decision": "approved"})
    fields = [
        f"  {name}: {_indent(', '.join(map(str, value)) if isinstance(value, list) else str(value))}"
        for name, value in pending.items()
        if not isinstance(value, dict)
    ]
    return "\n".join(
        [
            "A person must approve this operation:",
            *fields,
            *_describe_effect(pending.get("effect")),
            f"To decide{where}:",
            f"  POST wap/runs/{message['runId']}/decision {body}",
            '  or with "denied", and a "reason";',
            f"  or in a notebook there: %wap approve {message['runId']}",
        ]
    )


def _describe_effect(effect: Event | None) -> list[str]:
    """Return what the command did on its layer: its changes, diffs and output."""
    if effect is None:
        return []
    diffs = [str(one["diff"]) for one in effect.get("changes", ()) if one.get("diff")][:MAX_DIFFS]
    texts = [(BARS["stdout"], diff[:MAX_TEXT_CHARACTERS]) for diff in diffs]
    texts += [(bar, str(effect[name])[-MAX_TEXT_CHARACTERS:]) for name, bar in BARS.items() if effect.get(name)]
    head = f"  effect: {summarize_effect(effect)} (exit {effect.get('exitCode')}; nothing is applied yet)"
    return [head, *_list_changes(effect), *(f"{bar}{_indent(text)}" for bar, text in texts)]


def _list_changes(effect: Event) -> list[str]:
    changes = effect.get("changes", ())
    lines = [
        escape_one_line(f"    {one.get('change', '')}: {' '.join(filter(None, (one.get('kind'), one.get('path'))))}")
        for one in changes[:MAX_CHANGES]
    ]
    more = len(changes) - len(lines) + int(effect.get("more") or 0)
    return [*lines, f"    and {more} more"] if more else lines


def _indent(text: str) -> str:
    return escape_invisible(text).rstrip("\n").replace("\n", f"\n{BARS['stdout']}")
