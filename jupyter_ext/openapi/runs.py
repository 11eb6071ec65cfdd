"""The routes of runs, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from wap_kernel.dialects.agent_spaces.event_models import EventsMessage
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import (
    DEFAULT_OUTPUT_PAGE_BYTES,
    DEFAULT_PAGE,
    DEFAULT_WAIT_SECONDS,
    MAX_IDEMPOTENCY_KEY_CHARACTERS,
    MAX_OUTPUT_OFFSET,
    MAX_OUTPUT_PAGE_BYTES,
    MAX_PAGE,
    MAX_WAIT_SECONDS,
)
from wap_kernel.model.run import RunStatus
from wap_kernel.runs.store.outputs import STREAMS

from .. import schemas
from ..handlers import runs as handlers
from ..handlers.run_requests import Decided, Revert
from . import parts
from .tools import CLAIMS

_ONE = (*parts.ALWAYS, Code.NOT_FOUND)
_STATUSES = [status.value for status in RunStatus]
_RUN = [parts.path("runId")]
_WAITING = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": DEFAULT_WAIT_SECONDS}
_LOCATION = {"Location": {"description": "The run's own address.", "schema": {"type": "string"}}}

_SUMMARY = {
    "type": "object",
    "properties": {
        "runId": {"type": "string"},
        "status": {"enum": _STATUSES},
        "user": {"type": "string"},
        "agent": {"type": "string"},
        "dialect": {"type": "string"},
        "startedAt": {"type": "string"},
        "completedAt": {"type": "string"},
        "operations": {"type": "integer", "description": "How many it has."},
        "problems": {"type": "integer", "description": "How many of its events tell of a failure or a denial so far."},
        "reverts": {"type": "string", "description": "The run that it undoes."},
        "pendingApproval": {"type": "object"},
    },
    "required": ["runId", "status", "startedAt", "operations", "problems"],
}
_CHANGES = {
    "type": "object",
    "properties": {
        "changes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "change": {"type": "string"},
                    "diff": {"type": "string", "description": "From before the run to after it, for text."},
                    "revertible": {"type": "boolean"},
                    "conflict": {"type": "boolean", "description": "It was changed again since."},
                },
                "required": ["path", "change"],
            },
        },
        "more": {"type": "integer", "description": "How many further changes are not listed."},
        "notKept": {"type": "array", "description": "What was too large to keep, and so cannot be undone."},
        "notUndone": {"type": "array", "description": "Places that a revert leaves alone."},
    },
    "required": ["changes"],
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "operationId": {"type": "string"},
        "stream": {"enum": list(STREAMS)},
        "offset": {"type": "integer"},
        "content": {"type": "string", "description": "UTF-8, with replacements for what is not."},
        "totalBytes": {"type": "integer", "description": "So far, while the command runs."},
        "isComplete": {"type": "boolean", "description": "Nothing comes after this page."},
        "nextOffset": {"type": "integer", "description": "Where the next page begins, unless this is the last."},
        "isTruncated": {"type": "boolean", "description": "There was more than is kept."},
    },
    "required": ["operationId", "stream", "offset", "content", "totalBytes", "isComplete"],
}
_SENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Where to go on after it: Last-Event-ID."},
        "event": {"enum": ["event", "output", "status"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["id", "event", "data"],
}


def paths() -> dict[str, Any]:
    one = "/wap/runs/{runId}"
    return {
        "/wap/runs": {"post": _start(), "get": _list()},
        one: {"get": _get()},
        f"{one}/decision": {"post": _decide()},
        f"{one}/cancel": {"post": _cancel()},
        f"{one}/revert": {"post": _revert()},
        f"{one}/changes": {"get": _changes()},
        f"{one}/output/{{operationId}}": {"get": _output()},
        f"{one}/stream": {"get": _stream()},
        "/wap/events": {"get": _events()},
    }


def _start() -> parts.Route:
    key = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_CHARACTERS, "pattern": "^[ -~]+$"}
    again = "A repeated request with this key answers the first one's run; with another body it is a CONFLICT."
    return {
        "operationId": "startRun",
        "summary": "Do the operations of an Agent Spaces message, in order",
        "description": "A failed or denied operation does not stop the rest; one that needs approval pauses the run.",
        "parameters": [_wait(), parts.header(handlers.KEY_HEADER, key, again), *CLAIMS],
        "requestBody": {"required": True, "content": parts.json(schemas.of(OperationsMessage, "validation"))},
        "responses": _begun((*parts.ALWAYS, Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED)),
    }


def _list() -> parts.Route:
    status = parts.query("status", {"type": "string", "enum": _STATUSES}, "Only runs with this status.")
    return {
        "operationId": "listRuns",
        "summary": "The runs, newest first; an agent sees its own",
        "parameters": [status, *parts.page(DEFAULT_PAGE, MAX_PAGE)],
        "responses": parts.responses(parts.listed("runs", _SUMMARY), parts.ALWAYS),
    }


def _get() -> parts.Route:
    return {
        "operationId": "getRun",
        "summary": "A run and its events so far",
        "parameters": _RUN,
        "responses": parts.responses(_message(), _ONE),
    }


def _decide() -> parts.Route:
    codes = (*_ONE, Code.CONFLICT, Code.NO_SPACE)
    return {
        "operationId": "decide",
        "summary": "Approve or deny the operation that a run waits with",
        "description": "Needs a person's credential. Decided, expired or changed since it was shown: CONFLICT.",
        "parameters": [*_RUN, _wait()],
        "requestBody": {"required": True, "content": parts.json(schemas.of(Decided, "validation"))},
        "responses": {
            "200": {"description": "The run went on and has ended or asks again.", "content": parts.json(_message())},
            "202": {"description": "The run goes on.", "content": parts.json(_message())},
            **parts.errors(codes),
        },
    }


def _cancel() -> parts.Route:
    return {
        "operationId": "cancelRun",
        "summary": "Stop a run; what it has done stays done",
        "parameters": _RUN,
        "responses": parts.responses(_message(), (*_ONE, Code.CONFLICT, Code.NO_SPACE)),
    }


def _revert() -> parts.Route:
    return {
        "operationId": "revertRun",
        "summary": "Undo what a run changed, as a run of its own",
        "description": "Where a later change would be lost: CONFLICT, which names the files.",
        "parameters": [*_RUN, _wait(), *CLAIMS],
        "requestBody": {"required": False, "content": parts.json(schemas.of(Revert, "validation"))},
        "responses": _begun((*_ONE, Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED)),
    }


def _changes() -> parts.Route:
    return {
        "operationId": "getChanges",
        "summary": "What a run changed, and what a revert would do",
        "parameters": _RUN,
        "responses": parts.responses(_CHANGES, _ONE),
    }


def _output() -> parts.Route:
    offset = {"type": "integer", "minimum": 0, "maximum": MAX_OUTPUT_OFFSET, "default": 0}
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_OUTPUT_PAGE_BYTES, "default": DEFAULT_OUTPUT_PAGE_BYTES}
    return {
        "operationId": "getOutput",
        "summary": "The whole output of a command, page by page, also while it runs",
        "parameters": [
            *_RUN,
            parts.path("operationId"),
            parts.choice("stream", STREAMS, "Which of the two."),
            parts.query("offset", offset, "In bytes."),
            parts.query("limit", limit, "Bytes at most."),
        ],
        "responses": parts.responses(_OUTPUT, _ONE),
    }


def _stream() -> parts.Route:
    nothing = {"204": {"description": "The run has ended, and the reader has seen all of it."}}
    return {
        "operationId": "streamRun",
        "summary": "The events, output and status of a run as they come; ends with the run",
        "parameters": [*_RUN, *_resuming()],
        "responses": {**_live(), **nothing, **parts.errors(_ONE)},
    }


def _events() -> parts.Route:
    return {
        "operationId": "streamEvents",
        "summary": "The events and status of all runs as they come; never ends",
        "parameters": _resuming(),
        "responses": {**_live(), **parts.errors(parts.ALWAYS)},
    }


def _wait() -> dict[str, Any]:
    return parts.query("wait", _WAITING, "Seconds to wait for the run; 0 answers at once.")


def _resuming() -> list[dict[str, Any]]:
    schema = {"type": "string"}
    return [
        parts.header("Last-Event-ID", schema, "Go on after this event."),
        parts.query("lastEventId", schema, "The same, for who cannot send the header."),
    ]


def _live() -> dict[str, Any]:
    text = "Server-sent events: `event` (an Agent Spaces event), `output` ({operationId, stream, chunk}), `status`."
    return {"200": {"description": text, "content": {"text/event-stream": {"schema": _SENT}}}}


def _begun(codes: tuple[Code, ...]) -> dict[str, Any]:
    content = parts.json(_message())
    return {
        "201": {"description": "It has ended.", "headers": _LOCATION, "content": content},
        "202": {"description": "It goes on, or waits for a person.", "headers": _LOCATION, "content": content},
        **parts.errors(codes),
    }


def _message() -> schemas.Schema:
    return schemas.of(EventsMessage, "serialization")
