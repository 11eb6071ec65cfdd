"""The routes of runs, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.agent_spaces.approval_models import PendingApproval
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

from ..handlers.approvals import DecisionRequest
from ..handlers.runs import KEY_HEADER, ApplyRequest, RevertRequest
from . import parts
from .tools import CLAIMS

_ONE = (*parts.ALWAYS, Code.NOT_FOUND)
_STATUSES = [status.value for status in RunStatus]
_RUN = [parts.path("runId")]
_WAIT_SECONDS = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": DEFAULT_WAIT_SECONDS}
_LOCATION = {"Location": {"description": "The run's own address.", "schema": {"type": "string"}}}

_SUMMARY = {
    "type": "object",
    "properties": {
        "runId": {"type": "string"},
        "status": {"enum": _STATUSES},
        "user": {"type": "string"},
        "agent": {"type": "string"},
        "dialect": {"type": "string"},
        "tool": {"type": "string", "description": "The tool, for the run of a single call."},
        "startedAt": {"type": "string"},
        "completedAt": {"type": "string"},
        "operations": {"type": "integer", "description": "The number of its operations."},
        "problems": {
            "type": "integer",
            "description": "The number of its events so far with a failure or denial.",
        },
        "reverts": {"type": "string", "description": "The run that it reverts."},
        "pendingApproval": json_schema.build_schema(PendingApproval, "serialization"),
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
                    "from": {"type": "string", "description": "The old path of what was moved."},
                    "diff": {
                        "type": "string",
                        "description": "The change of a text file, from before the run to after.",
                    },
                    "revertible": {"type": "boolean"},
                    "conflict": {"type": "boolean", "description": "The file was changed again since."},
                },
                "required": ["path", "change"],
            },
        },
        "more": {"type": "integer", "description": "The number of further changes that are not listed."},
    },
    "required": ["changes"],
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "operationId": {"type": "string"},
        "stream": {"enum": list(STREAMS)},
        "offset": {"type": "integer"},
        "content": {"type": "string", "description": "Text; bytes that are not UTF-8 are replaced."},
        "totalBytes": {"type": "integer", "description": "The bytes so far, while the command runs."},
        "isComplete": {"type": "boolean", "description": "Whether this is the last page."},
        "nextOffset": {"type": "integer", "description": "The offset of the next page, unless this is the last."},
        "isTruncated": {"type": "boolean", "description": "Whether the command wrote more than is stored."},
    },
    "required": ["operationId", "stream", "offset", "content", "totalBytes", "isComplete"],
}
_SENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id to continue after: Last-Event-ID."},
        "event": {"enum": ["event", "output", "status"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["id", "event", "data"],
}


def paths() -> dict[str, Any]:
    one = "/wap/runs/{runId}"
    return {
        "/wap/runs": {"post": _start("startRun"), "get": _list()},
        "/wap/api/runOperations": {"post": _start("runOperations")},
        one: {"get": _get()},
        f"{one}/decision": {"post": _decide()},
        f"{one}/cancel": {"post": _cancel()},
        f"{one}/revert": {"post": _revert()},
        f"{one}/apply": {"post": _apply()},
        f"{one}/changes": {"get": _changes()},
        f"{one}/output/{{operationId}}": {"get": _output()},
        f"{one}/stream": {"get": _stream()},
        "/wap/events": {"get": _events()},
    }


def _start(name: str) -> parts.Route:
    key = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_CHARACTERS, "pattern": "^[ -~]+$"}
    again = "A repeated request with this key returns the run of the first; with another body it is a CONFLICT."
    return {
        "operationId": name,
        "summary": "Run the operations of an Agent Spaces message, in order",
        "description": "A failed or denied operation does not stop the rest; one that needs approval pauses the run.",
        "parameters": [_wait(), parts.header(KEY_HEADER, key, again), *CLAIMS],
        "requestBody": parts.request_body(OperationsMessage),
        "responses": _started((*parts.ALWAYS, Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED)),
    }


def _list() -> parts.Route:
    status = parts.query("status", {"type": "string", "enum": _STATUSES}, "Only runs with this status.")
    return {
        "operationId": "listRuns",
        "summary": "The runs, newest first; an agent sees its own",
        "parameters": [status, *parts.page_parameters(DEFAULT_PAGE, MAX_PAGE)],
        "responses": parts.responses(parts.page_of("runs", _SUMMARY), parts.ALWAYS),
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
        "description": "Needs a person's credential. Decided, expired, or changed since it was shown: CONFLICT.",
        "parameters": [*_RUN, _wait()],
        "requestBody": parts.request_body(DecisionRequest),
        "responses": {
            "200": {
                "description": "The run has ended or waits again.",
                "content": parts.json(_message()),
            },
            "202": {"description": "The run continues.", "content": parts.json(_message())},
            **parts.errors(codes),
        },
    }


def _cancel() -> parts.Route:
    return {
        "operationId": "cancelRun",
        "summary": "Cancel a run",
        "description": "The changes of its completed operations stay, unless it is atomic; those of the command that "
        "is ended are not applied.",
        "parameters": _RUN,
        "responses": parts.responses(_message(), (*_ONE, Code.CONFLICT, Code.NO_SPACE)),
    }


def _revert() -> parts.Route:
    return {
        "operationId": "revertRun",
        "summary": "Revert the changes of a run, as a run of its own",
        "description": "Answers CONFLICT, with the files, where a later change would be lost.",
        "parameters": [*_RUN, _wait(), *CLAIMS],
        "requestBody": parts.request_body(RevertRequest),
        "responses": _started((*_ONE, Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED)),
    }


def _apply() -> parts.Route:
    return {
        "operationId": "applyRun",
        "summary": "Apply what a run left in its layer, as a run of its own",
        "description": "Needs a person's credential. What was not applied, because the files had changed meanwhile or "
        "the run was cancelled, replaces what is in the workspace now; a revert of the new run restores that.",
        "parameters": [*_RUN, _wait(), *CLAIMS],
        "requestBody": parts.request_body(ApplyRequest),
        "responses": _started((*_ONE, Code.CONFLICT, Code.NO_SPACE)),
    }


def _changes() -> parts.Route:
    return {
        "operationId": "getChanges",
        "summary": "The changes of a run, and what a revert would do",
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
            parts.choice("stream", STREAMS, "The stream of output."),
            parts.query("offset", offset, "The first byte of the page."),
            parts.query("limit", limit, "Bytes at most."),
        ],
        "responses": parts.responses(_OUTPUT, _ONE),
    }


def _stream() -> parts.Route:
    nothing = {"204": {"description": "The run has ended, and the client has seen all of it."}}
    return {
        "operationId": "streamRun",
        "summary": "The events, output and status of a run as they happen; ends with the run",
        "parameters": [*_RUN, *_resume_parameters()],
        "responses": {**_event_stream(), **nothing, **parts.errors(_ONE)},
    }


def _events() -> parts.Route:
    return {
        "operationId": "streamEvents",
        "summary": "The events and status of all runs as they happen; never ends",
        "parameters": _resume_parameters(),
        "responses": {**_event_stream(), **parts.errors(parts.ALWAYS)},
    }


def _wait() -> dict[str, Any]:
    return parts.query("wait", _WAIT_SECONDS, "Seconds to wait for the run; 0 answers immediately.")


def _resume_parameters() -> list[dict[str, Any]]:
    schema = {"type": "string"}
    return [
        parts.header("Last-Event-ID", schema, "Continue after this event."),
        parts.query("lastEventId", schema, "Last-Event-ID for clients that cannot send the header."),
    ]


def _event_stream() -> dict[str, Any]:
    text = "Server-sent events: `event` (an Agent Spaces event), `output` ({operationId, stream, chunk}), `status`."
    return {"200": {"description": text, "content": {"text/event-stream": {"schema": _SENT}}}}


def _started(codes: tuple[Code, ...]) -> dict[str, Any]:
    content = parts.json(_message())
    return {
        "201": {"description": "The run has ended.", "headers": _LOCATION, "content": content},
        "202": {
            "description": "The run goes on, or waits for an approval.",
            "headers": _LOCATION,
            "content": content,
        },
        **parts.errors(codes),
    }


def _message() -> json_schema.Schema:
    return json_schema.build_schema(EventsMessage, "serialization")
