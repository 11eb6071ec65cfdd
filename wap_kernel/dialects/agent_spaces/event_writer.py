"""Write the events of a run in the form of Agent Spaces: the result of an operation becomes a dict for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.agent_spaces.event_models import TYPES, Category
from wap_kernel.dialects.hints import render_hint
from wap_kernel.files.read import WholeFile
from wap_kernel.model.errors import AlreadyExists, ApprovalRequired, EditNotFound, PermissionDenied, TimedOut, WapError
from wap_kernel.model.limits import AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS
from wap_kernel.model.operations import Message, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import (
    AppliedChanges,
    CommandResult,
    FileContent,
    ModifyResult,
    PathResult,
    Result,
    RevertResult,
    WriteResult,
)
from wap_kernel.model.text import format_timestamp
from wap_kernel.redaction.results import PATTERN_REDACTOR, Redact, redact_value

TIMED_OUT = 124
"""Exit code of a command that took too long, as `timeout` of coreutils has it."""
_UNREDACTED_FIELDS = frozenset({"operationId", "content", "diff", "closest"})
"""Fields with the sender's own text or a file's content, which an edit must find again character by character."""
Event = dict[str, Any]


class AgentSpacesEventWriter:
    """The writer of the events of a run; a field without a value is absent."""

    def __init__(self, clock: Callable[[], datetime], redact: Redact = PATTERN_REDACTOR) -> None:
        self._clock = clock
        self._redact = redact

    def write_result(self, step_id: str, operation: Operation, result: Result, **extra: Any) -> Event:
        success = getattr(result, "exit_code", 0) == 0
        if isinstance(operation, Message):
            fields = self._message_fields(operation)
        else:
            fields = _RESULTS.get(type(result), _no_fields)(operation, result)
        return self._write_outcome(step_id, operation, success, fields | extra)

    def write_file_read(self, step_id: str, operation: ReadFile, whole: WholeFile) -> Event:
        """Return the event of a file that was read whole, quickly: a batch may have a thousand of them."""
        event = {
            "type": TYPES[operation.kind],
            "timestamp": format_timestamp(self._clock()),
            "operationId": _escape_surrogates(step_id),
            "path": redact_value(_escape_surrogates(operation.path), self._redact),
            "success": True,
            "content": whole.content,
            "encoding": whole.encoding,
            "size": whole.size,
            "hash": whole.hash,
        }
        return {**event, "isLossy": True} if whole.is_lossy else event

    def write_failure(self, step_id: str, operation: Operation, error: WapError) -> Event:
        rule = error.details.get("rule")
        if rule is not None or isinstance(error, PermissionDenied | ApprovalRequired):
            return self.write_denial(step_id, operation, error.message, render_hint(error.hint, "agent_spaces"), rule)
        fields = {
            "error": _error_text(operation, error),
            "code": error.code.value,
            "hash": error.details.get("currentHash"),
            "closest": error.details.get("closest"),
            "paths": error.details.get("paths"),
        }
        if isinstance(operation, RunCommand):
            fields |= _partial_output(error)
        return self._write_outcome(step_id, operation, False, fields)

    def write_approval(self, step_id: str, operation: Operation, reason: str, details: Mapping[str, Any]) -> Event:
        return self._write(
            "approvalRequired",
            operationId=step_id,
            operationType=TYPES[operation.kind],
            reason=reason,
            details=dict(details),
        )

    def write_denial(
        self, step_id: str, operation: Operation, reason: str, suggestion: str | None = None, rule: str | None = None
    ) -> Event:
        return self._write(
            "policyDenied",
            operationId=step_id,
            operationType=TYPES[operation.kind],
            reason=reason,
            suggestion=suggestion,
            rule=rule,
            details=_name_subject(operation) or None,
        )

    def write_error(self, category: Category, message: str, details: Mapping[str, Any] | None = None) -> Event:
        return self._write("error", category=category, message=message, details=dict(details or {}))

    def _message_fields(self, message: Message) -> Event:
        """Return the beginning of a message; the stored operations of the run hold all of it."""
        is_long = len(message.content) > AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS
        content = redact_value(message.content, self._redact)[:AGENT_SPACES_MAX_EVENT_MESSAGE_CHARACTERS]
        return {"content": content, "truncated": is_long or None}

    def _write_outcome(self, step_id: str, operation: Operation, success: bool, fields: Event) -> Event:
        subject = {"operationId": step_id, **_name_subject(operation)}
        return self._write(TYPES[operation.kind], **{**subject, "success": success, **fields})

    def _write(self, type_: str, **fields: Any) -> Event:
        event: Event = {"type": type_, "timestamp": format_timestamp(self._clock())}
        for name, value in fields.items():
            if value is not None:
                escaped = _escape_surrogates(value)
                event[name] = escaped if name in _UNREDACTED_FIELDS else redact_value(escaped, self._redact)
        return event


def _name_subject(operation: Operation) -> Event:
    """Return what an operation is about: its paths, command or run, never contents."""
    summary = operation.summary()
    return {name: summary[name] for name in ("path", "source", "destination", "command", "run") if name in summary}


def _no_fields(_: Operation, __: Result) -> Event:
    return {}


def _content(_: Operation, result: FileContent) -> Event:
    return {
        "content": result.content,
        "encoding": result.encoding,
        "size": result.metadata.size,
        "hash": result.hash,
        "truncated": result.is_truncated or None,
        "isLossy": result.is_lossy,
    }


def _written(_: Operation, result: WriteResult) -> Event:
    return {"bytesWritten": result.bytes_written, "hash": result.hash}


_EFFECT_FIELDS: Sequence[str] = ("refusedChanges", "conflicts", "isolation")
"""Fields of a command's result that tell which of its changes were not applied, or cannot be undone."""


def _modified(operation: ModifyFile, result: ModifyResult) -> Event:
    return {
        "editsApplied": len(operation.edits),
        "hash": result.hash,
        "diff": result.diff,
        "truncated": result.is_diff_truncated,
    }


def _command(_: Operation, result: CommandResult) -> Event:
    dumped = result.model_dump(by_alias=True, exclude_none=True)
    effect: Event = {name: dumped[name] for name in _EFFECT_FIELDS if name in dumped}
    return {"exitCode": result.exit_code, **_output(dumped), **effect}


def _changed(_: Operation, result: PathResult) -> Event:
    return {"hash": result.hash}


def _reverted(_: Operation, result: RevertResult) -> Event:
    return {"restored": result.restored, "left": result.left}


def _applied(_: Operation, result: AppliedChanges) -> Event:
    return result.model_dump(by_alias=True, exclude_none=True)


_RESULTS: Mapping[type[Result], Callable[[Any, Any], Event]] = MappingProxyType(
    {
        FileContent: _content,
        WriteResult: _written,
        ModifyResult: _modified,
        CommandResult: _command,
        PathResult: _changed,
        RevertResult: _reverted,
        AppliedChanges: _applied,
    }
)


def _output(result: Mapping[str, Any]) -> Event:
    found = {name: result.get(name) for name in ("stdout", "stderr", "durationMs", "stdoutBytes", "stderrBytes")}
    return {**found, "truncated": result.get("isOutputTruncated") or None}


def _partial_output(error: WapError) -> Event:
    """Return the output of a command that was ended early; empty if it never started."""
    ran = "durationMs" in error.details
    timed_out = {"timedOut": True, "exitCode": TIMED_OUT} if ran and isinstance(error, TimedOut) else {}
    effect: Event = {name: error.details[name] for name in _EFFECT_FIELDS if name in error.details}
    return {**timed_out, **_output(error.details), **effect}


def _error_text(operation: Operation, error: WapError) -> str:
    """Return the text of an error, in the protocol's own words where it has some."""
    if isinstance(operation, WriteFile) and isinstance(error, AlreadyExists):
        return "File already exists"
    if isinstance(error, EditNotFound):
        return error.message
    return type(error)(error.message, hint=render_hint(error.hint, "agent_spaces")).text


def _escape_surrogates(value: Any) -> Any:
    """Return the value with lone surrogates escaped: they stand for bytes that are not UTF-8, and JSON has none."""
    if isinstance(value, str):
        try:
            return render_path(value)
        except UnicodeEncodeError:
            return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_escape_surrogates(name): _escape_surrogates(one) for name, one in value.items()}
    return [_escape_surrogates(one) for one in value] if isinstance(value, list | tuple) else value
