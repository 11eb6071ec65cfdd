"""Agent Spaces: the events of a run, as the runner writes them. What an operation answered becomes a dict for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.agent_spaces.event_models import TYPES, Category
from wap_kernel.dialects.hints import render_hint
from wap_kernel.files.read import WholeFile
from wap_kernel.model.errors import AlreadyExists, ApprovalRequired, EditNotFound, PermissionDenied, TimedOut, WapError
from wap_kernel.model.operations import Message, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import (
    CommandResult,
    FileContent,
    ModifyResult,
    WriteResult,
    PathResult,
    Result,
    RevertResult,
)
from wap_kernel.model.timestamps import format_timestamp
from wap_kernel.redaction.results import PATTERN_REDACTOR, Redact, redact_value

TIMED_OUT = 124
"""The exit code of a command that took too long, as `timeout` of coreutils has it."""
MAX_MESSAGE_CHARACTERS = 2_000
"""Characters of a message that its event holds."""
_AS_IT_IS = frozenset({"operationId", "content", "diff", "closest"})
"""What the sender gave, and what stands in files: an edit must find what was shown."""
Event = dict[str, Any]


class AgentSpacesEventWriter:
    """Makes the events of operations, ready for JSON. What has no value is absent."""

    def __init__(self, clock: Callable[[], datetime], redact: Redact = PATTERN_REDACTOR) -> None:
        self._clock = clock
        self._redact = redact

    def write_result(self, step_id: str, operation: Operation, result: Result, **extra: Any) -> Event:
        success = getattr(result, "exit_code", 0) == 0
        if isinstance(operation, Message):
            found = self._said(operation)
        else:
            found = _RESULTS.get(type(result), _nothing)(operation, result)
        return self._outcome(step_id, operation, success, found | extra)

    def write_file_read(self, step_id: str, operation: ReadFile, whole: WholeFile) -> Event:
        """What `done` says of a file that was read whole; a batch may have a thousand of them."""
        event = {
            "type": TYPES[operation.kind],
            "timestamp": format_timestamp(self._clock()),
            "operationId": _unicode(step_id),
            "path": _unicode(operation.path),
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
        found = {
            "error": _text(operation, error),
            "code": error.code.value,
            "hash": error.details.get("currentHash"),
            "closest": error.details.get("closest"),
            "paths": error.details.get("paths"),
        }
        if isinstance(operation, RunCommand):
            found |= _partial(error)
        return self._outcome(step_id, operation, False, found)

    def write_approval(self, step_id: str, operation: Operation, reason: str, details: Mapping[str, Any]) -> Event:
        return self._event(
            "approvalRequired",
            operationId=step_id,
            operationType=TYPES[operation.kind],
            reason=reason,
            details=dict(details),
        )

    def write_denial(
        self, step_id: str, operation: Operation, reason: str, suggestion: str | None = None, rule: str | None = None
    ) -> Event:
        return self._event(
            "policyDenied",
            operationId=step_id,
            operationType=TYPES[operation.kind],
            reason=reason,
            suggestion=suggestion,
            rule=rule,
            details=_named(operation) or None,
        )

    def write_error(self, category: Category, message: str, details: Mapping[str, Any] | None = None) -> Event:
        return self._event("error", category=category, message=message, details=dict(details or {}))

    def _said(self, message: Message) -> Event:
        """What it says, for whoever did not send it. A batch may hold a thousand, which are not kept twice over."""
        is_long = len(message.content) > MAX_MESSAGE_CHARACTERS
        return {"content": redact_value(message.content, self._redact)[:MAX_MESSAGE_CHARACTERS], "truncated": is_long or None}

    def _outcome(self, step_id: str, operation: Operation, success: bool, found: Event) -> Event:
        named = {"operationId": step_id, **_named(operation)}
        return self._event(TYPES[operation.kind], **{**named, "success": success, **found})

    def _event(self, type_: str, **fields: Any) -> Event:
        said = {name: _unicode(value) for name, value in fields.items() if value is not None}
        kept = {name: value if name in _AS_IT_IS else redact_value(value, self._redact) for name, value in said.items()}
        return {"type": type_, "timestamp": format_timestamp(self._clock()), **kept}


def _named(operation: Operation) -> Event:
    """What it is about: paths, a command, a run; never contents."""
    summary = operation.summary()
    return {name: summary[name] for name in ("path", "source", "destination", "command", "run") if name in summary}


def _nothing(_: Operation, __: Result) -> Event:
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


def _modified(operation: ModifyFile, result: ModifyResult) -> Event:
    return {
        "editsApplied": len(operation.edits),
        "hash": result.hash,
        "diff": result.diff,
        "truncated": result.is_diff_truncated,
    }


def _command(_: Operation, result: CommandResult) -> Event:
    return {"exitCode": result.exit_code, **_output(result.model_dump(by_alias=True))}


def _changed(_: Operation, result: PathResult) -> Event:
    return {"hash": result.hash}


def _reverted(_: Operation, result: RevertResult) -> Event:
    return {"restored": result.restored, "left": result.left, "notUndone": result.not_undone}


_RESULTS: Mapping[type[Result], Callable[[Any, Any], Event]] = MappingProxyType(
    {
        FileContent: _content,
        WriteResult: _written,
        ModifyResult: _modified,
        CommandResult: _command,
        PathResult: _changed,
        RevertResult: _reverted,
    }
)


def _output(result: Mapping[str, Any]) -> Event:
    found = {name: result.get(name) for name in ("stdout", "stderr", "durationMs", "stdoutBytes", "stderrBytes")}
    return {**found, "truncated": result.get("isOutputTruncated") or None}


def _partial(error: WapError) -> Event:
    """What a command did that did not end by itself; nothing if it was not even started."""
    ran = "durationMs" in error.details
    timed_out = {"timedOut": True, "exitCode": TIMED_OUT} if ran and isinstance(error, TimedOut) else {}
    return {**timed_out, **_output(error.details)}


def _text(operation: Operation, error: WapError) -> str:
    """The protocol's own words where it has some."""
    if isinstance(operation, WriteFile) and isinstance(error, AlreadyExists):
        return "File already exists"
    if isinstance(error, EditNotFound):
        return error.message
    return type(error)(error.message, hint=render_hint(error.hint, "agent_spaces")).text


def _unicode(value: Any) -> Any:
    """Half characters, such as stand for bytes of a name that is not UTF-8, are shown escaped: no JSON has them."""
    if isinstance(value, str):
        try:
            return render_path(value)
        except UnicodeEncodeError:
            return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_unicode(name): _unicode(one) for name, one in value.items()}
    return [_unicode(one) for one in value] if isinstance(value, list | tuple) else value
