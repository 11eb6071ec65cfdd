"""What a run is: operations in order, what became of them so far, and what it waits for. Pure data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from wap_kernel.model.caller import Caller
from wap_kernel.model.operations import KINDS, Operation
from wap_kernel.model.policy import Grant


class RunStatus(str, Enum):
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
    """By the dialect's own name: `shell`, `executeCommand`."""
    operation: Operation


class BatchOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    atomic: bool = False
    """The first failure undoes everything."""
    dry_run: bool = False
    """Nothing is changed: file operations are played on an overlay, commands are not simulated."""
    refused: dict[str, dict[str, Any]] = {}
    """Operations, by id, that whoever let the caller in does not let happen, as `WapError.to_dict` has an error.
    Stored with the run: it binds whoever goes on with it after a decision."""


@dataclass(frozen=True)
class Approval:
    """A question to a person, bound to one operation as it was shown."""

    id: str
    run: str
    position: int
    operation_id: str
    digest: str
    """Of the operation."""
    files: Mapping[str, str | None]
    """What it would act on, as it was when it was shown; see `evidence.py`."""
    shown: Mapping[str, Any]
    """What the person needs to decide."""
    grant: Grant | None
    """What `remember` would store."""
    created_at: float
    expires_at: float
    decision: str | None = None
    decided_by: str | None = None
    reason: str | None = None

    @property
    def private(self) -> frozenset[str]:
        """What of `shown` is for people only: whoever asks could not read it."""
        return frozenset((*self.shown.get("private", ()), "private"))

    def shown_to(self, is_person: bool) -> dict[str, Any]:
        left_out = {"private"} if is_person else self.private
        kept = {name: value for name, value in self.shown.items() if name not in left_out}
        return {"approvalId": self.id, **kept}


@dataclass(frozen=True)
class Run:
    number: int
    """Later runs have larger ones."""
    id: str
    status: RunStatus
    caller: Caller
    dialect: str
    options: BatchOptions
    count: int
    """Of its operations."""
    operations: str | None
    """As they are stored, see `steps`; None where they were not asked for."""
    position: int
    """Of the next operation, from 0."""
    owner: str | None
    """The lease of the process that executes it."""
    cancel_requested: bool
    started_at: str
    completed_at: str | None = None
    reverts: str | None = None
    """The run that this one undoes."""
    response: Mapping[str, Any] | None = None
    """Of a single call that waited for approval: its dialect's own answer, or the error."""
    problems: int = 0
    """How many of its events tell that something failed or was denied."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Made when they are wanted."""
        assert self.operations is not None, "a glance at a run has no operations"
        return load_steps(self.operations)


def dump_steps(steps: Sequence[Step]) -> str:
    """As JSON, without taking apart what pydantic writes well."""
    heads = (json.dumps([step.id, step.tool, step.operation.kind])[:-1] for step in steps)
    bodies = (step.operation.model_dump_json(by_alias=False) for step in steps)
    return f"[{','.join(f'{head},{body}]' for head, body in zip(heads, bodies, strict=True))}]"


def load_steps(text: str) -> tuple[Step, ...]:
    return tuple(
        Step(identifier, tool, KINDS[kind].model_validate_json(json.dumps(body)))
        for identifier, tool, kind, body in json.loads(text)
    )
