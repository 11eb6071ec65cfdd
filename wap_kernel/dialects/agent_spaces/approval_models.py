"""Model the approval that a run waits for, and the effect of a command that has run on its layer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel


class ReceivedModel(BaseModel):
    """Base of models that clients parse; fields of later versions are accepted."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, alias_generator=to_camel)
    __pydantic_extra__: dict[str, JsonValue]


class RefusedChange(ReceivedModel):
    path: str
    rule: str
    reason: str


class ProposedChange(ReceivedModel):
    path: str
    change: str
    """created, changed, deleted, moved or mode."""
    kind: str | None = None
    """folder, link or special; absent for a file."""
    source: str | None = None
    """Old path of a folder that was moved."""
    diff: str | None = None
    is_diff_truncated: bool | None = None
    note: str | None = None
    """Sizes of a file that is binary or too large for a diff."""


class ApprovalEffect(ReceivedModel):
    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool | None = None
    changes: list[ProposedChange]
    counts: dict[str, int]
    """Number of all changes, by their kind."""
    more: int | None = None
    """Number of changes that are not listed."""
    refused_changes: list[RefusedChange] | None = None
    """Changes that policy refuses, whatever the decision."""


class PendingApproval(ReceivedModel):
    approval_id: str
    operation_id: str | None = None
    operation: dict[str, JsonValue] | None = None
    policy: str | None = None
    reason: str | None = None
    rule: str | None = None
    suggestion: str | None = None
    command: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    isolation: Literal["shared"] | None = None
    """The command would write into the workspace directly, which cannot be undone."""
    bound_to: list[str] | None = None
    """Files that the command names: when one changes before the decision, it is asked for again."""
    bound_to_count: int | None = None
    not_bound: list[str] | None = None
    """Files that the command names and that are too large to be compared."""
    effect: ApprovalEffect | None = None
    """Outcome and changes of the command, which has run on its layer; yes applies exactly these."""
    diff: str | None = None
    is_diff_truncated: bool | None = None
    note: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    token: str | None = None
    created_at: str | None = None
    expires_at: str | None = None
    remember: str | None = None
    """Text of the grant that `remember` would store."""
