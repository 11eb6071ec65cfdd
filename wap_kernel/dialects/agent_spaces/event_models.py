"""Model the events of Agent Spaces for clients that read them.

Fields that the protocol does not have (`hash`, `code`, `diff`, ...) are additions that clients may ignore. Events with
further fields are accepted too: a later version may have some.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag, TypeAdapter
from pydantic_core import PydanticCustomError

from wap_kernel.dialects.agent_spaces.approval_models import (
    PendingApproval,
    ProposedChange,
    ReceivedModel,
    RefusedChange,
)
from wap_kernel.dialects.agent_spaces.operations import Encoding, Validation, try_parse, validate
from wap_kernel.model.operations import ModifyFile, RunCommand, WriteFile
from wap_kernel.model.run import KINDS

TYPES: Mapping[str, str] = MappingProxyType(
    {kind: kind for kind in KINDS}
    | {WriteFile.kind: "createFile", ModifyFile.kind: "editFile", RunCommand.kind: "shell"}
)
"""Protocol's name of each kind of operation. The protocol has six; the others keep the engine's name."""

Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
Details = dict[str, JsonValue]
Category = Literal["validation", "policy", "execution", "timeout", "system"]


class _Event(ReceivedModel):
    type: str
    timestamp: Time | None = None
    operation_id: str | None = None


class _Outcome(_Event):
    """The event of an operation that was tried."""

    success: bool
    error: str | None = None
    code: str | None = None
    simulated: bool | None = None


class _OnPath(_Outcome):
    path: str
    hash: str | None = None
    """Hash of the file's present content, also when the operation expected another."""
    diff: str | None = None
    truncated: bool | None = None


class MessageEvent(_Outcome):
    type: Literal["message"]
    content: str | None = None
    truncated: bool | None = None
    """True when the message is longer than `content`."""


class CreateFileEvent(_OnPath):
    type: Literal["createFile"]
    bytes_written: int | None = None


class ReadFileEvent(_OnPath):
    type: Literal["readFile"]
    content: str | None = None
    encoding: Encoding | None = None
    size: int | None = None
    is_lossy: bool | None = None
    """True when bytes that are not UTF-8 were replaced in `content`."""


class EditFileEvent(_OnPath):
    type: Literal["editFile"]
    edits_applied: int | None = None
    closest: Details | None = None


class DeleteFileEvent(_OnPath):
    type: Literal["deleteFile"]


class ShellEvent(_Outcome):
    type: Literal["shell"]
    command: str
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    duration_ms: int | None = None
    timed_out: bool | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    truncated: bool | None = None
    isolation: Literal["shared"] | None = None
    """The command wrote into the workspace directly, which cannot be undone."""
    refused_changes: list[RefusedChange] | None = None
    """Changes that policy refuses; they were not applied."""
    conflicts: list[str] | None = None
    """Paths that were changed meanwhile: the workspace has that version, and a person may apply the command's."""
    changes: list[ProposedChange] | None = None
    """All changes of a dry run so far."""
    more: int | None = None
    """Number of changes that are not listed."""


class ApprovalRequiredEvent(_Event):
    type: Literal["approvalRequired"]
    operation_type: str
    reason: str
    details: Details = Field(default_factory=dict)


class PolicyDeniedEvent(_Event):
    type: Literal["policyDenied"]
    operation_type: str
    reason: str
    suggestion: str | None = None
    rule: str | None = None
    details: Details | None = None
    """Paths or command of the operation."""


class ErrorEvent(_Event):
    type: Literal["error"]
    category: Category
    message: str
    details: Details = Field(default_factory=dict)


_PROTOCOL_TYPES = (
    "message",
    "createFile",
    "readFile",
    "editFile",
    "deleteFile",
    "shell",
    "approvalRequired",
    "policyDenied",
    "error",
)
_OTHER_TYPES = tuple(sorted(set(TYPES.values()) - set(_PROTOCOL_TYPES)))


def _check_other_type(type_: str) -> str:
    if type_ not in _OTHER_TYPES:
        raise PydanticCustomError("type", "Unknown type of event")
    return type_


class OtherEvent(_Outcome):
    """The event of an operation that the protocol does not have."""

    type: Annotated[str, AfterValidator(_check_other_type), Field(json_schema_extra={"enum": list(_OTHER_TYPES)})]
    path: str | None = None
    source: str | None = None
    destination: str | None = None
    hash: str | None = None
    run: str | None = None
    """Run that was to be undone."""
    restored: list[str] | None = None
    left: list[str] | None = None
    paths: list[str] | None = None
    """Paths that conflict with the operation."""
    applied: list[str] | None = None
    """Paths at which the changes of an earlier run were applied."""
    refused_changes: list[RefusedChange] | None = None


def _choose_tag(sent: object) -> str | None:
    type_ = sent.get("type") if isinstance(sent, dict) else getattr(sent, "type", None)
    return type_ if type_ in _PROTOCOL_TYPES else "other"


AnyEvent = Annotated[
    Annotated[MessageEvent, Tag("message")]
    | Annotated[CreateFileEvent, Tag("createFile")]
    | Annotated[ReadFileEvent, Tag("readFile")]
    | Annotated[EditFileEvent, Tag("editFile")]
    | Annotated[DeleteFileEvent, Tag("deleteFile")]
    | Annotated[ShellEvent, Tag("shell")]
    | Annotated[ApprovalRequiredEvent, Tag("approvalRequired")]
    | Annotated[PolicyDeniedEvent, Tag("policyDenied")]
    | Annotated[ErrorEvent, Tag("error")]
    | Annotated[OtherEvent, Tag("other")],
    Discriminator(_choose_tag),
]


class EventsMessage(ReceivedModel):
    protocol_version: Literal["1.0"]
    run_id: str
    status: Literal["running", "awaiting_approval", "completed", "cancelled", "error"]
    events: list[AnyEvent]
    started_at: Time | None = None
    completed_at: Time | None = None
    atomic: bool | None = None
    dry_run: bool | None = None
    reverts: str | None = None
    pending_approval: PendingApproval | None = None
    response: Details | None = None
    """Response of a single call that waited for approval, in its dialect's own form."""


_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_MESSAGE: TypeAdapter[EventsMessage] = TypeAdapter(EventsMessage)


def parse_event(sent: object) -> AnyEvent:
    return validate(_EVENT, sent)


def parse_events_message(sent: object) -> EventsMessage:
    return validate(_MESSAGE, sent)


def validate_event(sent: object) -> Validation[AnyEvent]:
    """Never raises, whatever is sent."""
    return try_parse(parse_event, sent)


def validate_events_message(sent: object) -> Validation[EventsMessage]:
    """Never raises, whatever is sent."""
    return try_parse(parse_events_message, sent)
