"""The verdict on an operation: allow, ask or deny, with the rule and the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from wap_kernel.errors import PermissionDenied
from wap_kernel.files.primitives import Access, Guard
from wap_kernel.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RunCommand,
    SearchFiles,
    WriteFile,
)


class Answer(Enum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Verdict:
    answer: Answer
    rule: str
    reason: str
    suggestion: str | None = None


@dataclass(frozen=True)
class Touch:
    """A path that an operation reaches. `follow`: through a link in last position."""

    path: str
    access: Access
    follow: bool = True


def touches(operation: Operation) -> tuple[Touch, ...]:
    """The paths an operation names, with what it does to them."""
    if isinstance(operation, (ListFiles, ReadFile)):
        return (Touch(operation.path, Access.READ),)
    if isinstance(operation, SearchFiles):
        return tuple(Touch(path, Access.READ) for path in operation.paths)
    if isinstance(operation, (WriteFile, ModifyFile, CreateDirectory)):
        return (Touch(operation.path, Access.WRITE),)
    if isinstance(operation, DeleteFile):
        return (Touch(operation.path, Access.WRITE, follow=False),)
    if isinstance(operation, MoveFile):
        return (
            Touch(operation.source, Access.WRITE, follow=False),
            Touch(operation.destination, Access.WRITE, follow=False),
        )
    if isinstance(operation, CopyFile):
        return (Touch(operation.source, Access.READ), Touch(operation.destination, Access.WRITE))
    if isinstance(operation, RunCommand):
        return (Touch(operation.cwd, Access.READ),)
    return ()


ALLOWED = Verdict(Answer.ALLOW, "default", "Nothing forbids it.")


def decide(resolved: Iterable[Touch], guard: Guard) -> Verdict:
    """The verdict for paths that are already resolved. The primitives ask the guard again when they act."""
    for touch in resolved:
        try:
            guard.check(touch.path, touch.access)
        except PermissionDenied as refusal:
            return Verdict(Answer.DENY, "protected", refusal.message, refusal.hint)
    return ALLOWED
