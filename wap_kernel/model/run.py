"""A run, its steps, its status and the approval that it waits for. Pure data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict

from wap_kernel.model.caller import Caller
from wap_kernel.model.git.operations import GitChange, GitRead, GitTransfer
from wap_kernel.model.operations import (
    ApplyChanges,
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    Message,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    ReadNotebook,
    RevertRun,
    RunCommand,
    SearchFiles,
    ViewFile,
    WriteFile,
)
from wap_kernel.model.policy import Grant

KINDS: Mapping[str, type[Operation]] = MappingProxyType(
    {
        kind.kind: kind
        for kind in (
            *(Message, ListFiles, ReadFile, WriteFile, ModifyFile, SearchFiles, RunCommand),
            *(DeleteFile, MoveFile, CopyFile, CreateDirectory, RevertRun, ApplyChanges, DescribeWorkspace),
            *(ViewFile, ReadNotebook, GitRead, GitChange, GitTransfer),
        )
    }
)
"""The operations that a run may hold, by kind: a stored step names its kind."""


class RunStatus(str, Enum):
    """The states of a run."""

    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"

    @property
    def is_final(self) -> bool:
        return self not in (RunStatus.RUNNING, RunStatus.AWAITING_APPROVAL)


@dataclass(frozen=True)
class Step:
    """One operation of a run."""

    id: str
    tool: str
    """The dialect's own name of the tool: `shell`, `executeCommand`."""
    operation: Operation


class BatchOptions(BaseModel):
    """The options with which a run was started."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    atomic: bool = False
    """True if the first failure reverts the whole run."""
    dry_run: bool = False
    """True if the run acts on a layer that is discarded; where there are no layers, commands are refused."""
    on_layer: bool = False
    """True if the run works on one layer, which is applied or discarded at its end."""
    call: str | None = None
    """The tool of a single call, None for a batch."""
    refused: dict[str, dict[str, Any]] = {}
    """Errors, in the form of `WapError.to_dict`, by the id of the operation that the server's authorizer refused.

    They are stored with the run, so they also bind the process that resumes it after a decision.
    """


@dataclass(frozen=True)
class Approval:
    """A request for a person's decision, bound to one operation and to the files as the person saw them."""

    id: str
    run: str
    position: int
    operation_id: str
    digest: str
    """The digest of the operation."""
    files: Mapping[str, str | None]
    """The digests of the files that the operation acts on, see `runs/approval_evidence.py`."""
    details: Mapping[str, Any]
    """The fields that a person needs to decide."""
    grant: Grant | None
    """The grant that `remember` would store."""
    created_at: float
    expires_at: float
    decision: str | None = None
    decided_by: str | None = None
    reason: str | None = None

    @property
    def layer(self) -> str | None:
        """Return the id of the layer on which the command has run, whose effect the approval shows."""
        return self.details.get("layerId")

    @property
    def private(self) -> frozenset[str]:
        """Return the fields of `details` that only people see, because the agent could not read them."""
        return frozenset((*self.details.get("private", ()), "private", "layerId"))

    def render_for(self, is_person: bool) -> dict[str, Any]:
        """Return the approval as a person, or as an agent, may see it."""
        omitted = {"private", "layerId"} if is_person else self.private
        visible = {name: value for name, value in self.details.items() if name not in omitted}
        return {"approvalId": self.id, **visible}


@dataclass(frozen=True)
class Run:
    """Operations in order, with their status so far."""

    number: int
    """The sequence number; later runs have larger ones."""
    id: str
    status: RunStatus
    caller: Caller
    dialect: str
    options: BatchOptions
    count: int
    """The number of operations."""
    operations: str | None
    """The operations as they are stored, see `steps`; None where the query left them out."""
    position: int
    """The position of the next operation, from 0."""
    owner: str | None
    """The lease of the process that executes the run."""
    cancel_requested: bool
    started_at: str
    completed_at: str | None = None
    reverts: str | None = None
    """The id of the run that this one reverts."""
    response: Mapping[str, Any] | None = None
    """The response of a single call that waited for approval, in its dialect's form, or the error."""
    problems: int = 0
    """The number of events that report a failure or a denial."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps, parsed on first use."""
        assert self.operations is not None, "the query left the operations out"
        return load_steps(self.operations)


def dump_steps(steps: Sequence[Step]) -> str:
    """Return `steps` as JSON, with each operation as pydantic serialises it."""
    heads = (json.dumps([step.id, step.tool, step.operation.kind])[:-1] for step in steps)
    bodies = (step.operation.model_dump_json(by_alias=False) for step in steps)
    return f"[{','.join(f'{head},{body}]' for head, body in zip(heads, bodies, strict=True))}]"


def load_steps(text: str) -> tuple[Step, ...]:
    return tuple(
        Step(identifier, tool, KINDS[kind].model_validate_json(json.dumps(body)))
        for identifier, tool, kind, body in json.loads(text)
    )
