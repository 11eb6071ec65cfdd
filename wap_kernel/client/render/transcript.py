"""Write a run to a terminal: a line for each event, and the output of a command while it runs.

Control characters are escaped, and every line of output has a bar in front: no file or command of a workspace can move
the cursor, or pass for a line of wap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from wap_kernel.client.render import approval_view
from wap_kernel.client.render.blocks import Room
from wap_kernel.client.render.run_view import STATUSES
from wap_kernel.client.render.writers import text_writer
from wap_kernel.client.render.writers.palette import DIFF_ROLES, NO_COLORS, Palette
from wap_kernel.model.hints import address_person
from wap_kernel.model.text import escape_invisible, escape_one_line

Write = Callable[[str], object]
Event = Mapping[str, Any]

BARS = {"stdout": "  | ", "stderr": "  ! "}
NOUNS = {"bytesWritten": "bytes", "size": "bytes", "editsApplied": "edits", "durationMs": "ms"}
"""The units of the numbers in an event."""
OUTCOME_WIDTH = 7
MAX_CLOSEST_CHARACTERS = 2_000
MAX_CHANGES = 50
"""Changed paths that are listed."""
_ROOM = Room(characters=24_000, rows=200, lines=400)
"""The room of an approval."""
_ROLES = {"ok": "ok", "would": "ok", "failed": "failed", "error": "failed", "denied": "denied", "asks": "asks"}
"""The colour of each outcome."""


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

    def __init__(self, write: Write, palette: Palette = NO_COLORS) -> None:
        self._write = write
        self._palette = palette
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
        status = str(message["status"])
        label = self._palette.paint(status.replace("_", " "), STATUSES.get(status, ""))
        self._write(f"{message['runId']}: {label}{what}\n")
        if advice:
            self._write(advice + "\n")

    def _event(self, event: Event) -> None:
        if event["type"] == "shell":
            for stream in BARS:
                if (event.get("operationId"), stream) not in self._streamed:
                    self._output(str(event.get("operationId")), stream, str(event.get(stream, "")))
        self._close_line()
        self._write(render_event(event, self._palette) + "\n")
        if isinstance(closest := event.get("closest"), dict):
            self._write("".join(f"{line}\n" for line in self._closest(closest)))
        if "simulated" in event:
            for name in ("note", "diff"):
                self._write("".join(f"{line}\n" for line in self._detail(str(event.get(name) or ""), name)))
            if event.get("changes"):
                self._write("".join(f"{line}\n" for line in _list_changes(event)))

    def _closest(self, closest: Event) -> list[str]:
        """Return the region that is most like the text that an edit did not find."""
        head = f"  The closest is at line {closest.get('startLine')}:"
        return [escape_one_line(head), *self._detail(str(closest.get("text", ""))[:MAX_CLOSEST_CHARACTERS], "text")]

    def _detail(self, text: str, name: str) -> list[str]:
        """Return the lines of a note or a diff with a bar in front."""
        lines = escape_invisible(text).rstrip("\n").split("\n") if text else []
        roles = [DIFF_ROLES.get(line[:1], "") if name == "diff" else "" for line in lines]
        painted = [self._palette.paint(line, role) for line, role in zip(lines, roles, strict=True)]
        return [f"{BARS['stdout']}{line}" for line in painted]

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


def render_event(event: Event, palette: Palette = NO_COLORS) -> str:
    """Return an event on one line: its outcome, subject and facts."""
    line = _describe_event(event)
    outcome = line[:OUTCOME_WIDTH]
    return palette.paint(outcome, _ROLES.get(outcome.strip(), "")) + line[OUTCOME_WIDTH:]


def _describe_event(event: Event) -> str:
    kind = str(event["type"])
    if kind == "approvalRequired":
        is_skipped = event.get("simulated") is False
        reason = f"{event['reason']}. A dry run does not do it." if is_skipped else event["reason"]
        outcome = "skipped" if is_skipped else "asks"
        return _join(outcome, event["operationType"], _subject(event.get("details", {})), reason)
    if kind == "policyDenied":
        return _join("denied", event["operationType"], "", f"{event['reason']} {event.get('suggestion', '')}")
    if kind == "error":
        return _join("error", event["category"], "", address_person(event["message"]))
    facts = [f"exit {event['exitCode']}"] if "exitCode" in event else []
    facts += ["timed out"] if event.get("timedOut") else []
    facts += ["shared: not undone by a revert"] if event.get("isolation") == "shared" else []
    facts += [f"{event[name]} {noun}" for name, noun in NOUNS.items() if name in event]
    if "simulated" in event:
        facts += [f"{name} {event[name]}" for name in ("verdict", "rule") if event.get(name)]
    detail = address_person(str(event.get("error", ""))) + (f" ({', '.join(facts)})" if facts else "")
    return _join(_outcome(event), kind, _subject(event), detail)


def _outcome(event: Event) -> str:
    if not event.get("success"):
        return "failed"
    return "would" if event.get("simulated") else "ok"


def _subject(event: Event) -> str:
    return str(event.get("path") or event.get("command") or event.get("source") or event.get("operationId") or "")


def _join(outcome: str, kind: object, subject: str, detail: str) -> str:
    named = " ".join(part for part in (f"{outcome:{OUTCOME_WIDTH}}", str(kind), subject) if part)
    detail = detail.strip()
    separator = "" if not detail else " " if detail.startswith("(") else ": "
    return escape_one_line(f"{named}{separator}{detail}")


def render_pending_approval(message: Event, prefix: str, options: str = "", palette: Palette = NO_COLORS) -> str:
    """Return the pending approval of a run, and the lines with which a person decides it.

    `options` are the options that name the workspace in these lines, with a space before.
    """
    target = f"{message['runId']}{options}"
    return text_writer.write(approval_view.approval_blocks(target, message["pendingApproval"], _ROOM, prefix), palette)


def _list_changes(effect: Event) -> list[str]:
    changes = effect.get("changes", ())
    lines = [
        escape_one_line(f"    {one.get('change', '')}: {' '.join(filter(None, (one.get('kind'), one.get('path'))))}")
        for one in changes[:MAX_CHANGES]
    ]
    more = len(changes) - len(lines) + int(effect.get("more") or 0)
    return [*lines, f"    and {more} more"] if more else lines
