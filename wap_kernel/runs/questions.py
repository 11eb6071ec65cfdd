"""What a person is shown before they agree: the operation, the command or the diff, the path, the rule, who asks.

An agreement is to what was shown. So the question holds hashes of the operation and of the files that it would change,
and is asked anew when one of them is another by the time of the answer.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.caller import Caller
from wap_kernel.errors import ApprovalRequired, InvalidArgument, WapError
from wap_kernel.files import diffs, digest, editing
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.paths import display
from wap_kernel.files.primitives import Access, Files, Kind
from wap_kernel.files.reading import read_up_to
from wap_kernel.operations import DeleteFile, ModifyFile, MoveFile, Operation, RunCommand, WriteFile
from wap_kernel.policy.grants import Grant
from wap_kernel.policy.touches import touches
from wap_kernel.runs.model import Approval, Step
from wap_kernel.times import text_of_seconds

EXPIRY_SECONDS = 15 * 60.0
MAX_SHOWN = 1024 * 1024
"""Bytes of a file of which a diff is made for a person."""
MAX_NAMED = 20
"""Paths that could not be undone, named to a person."""
EDIT_SECONDS = 5.0
FOLDER = "folder"
"""Stands for the hash of a folder."""


@dataclass(frozen=True)
class Questions:
    files: Callable[[Caller], Files]
    """As the caller may see them."""
    grant_for: Callable[[Operation, Caller], Grant | None]
    foresee: Callable[[], Mapping[str, Any]]
    """What could not be undone if a command changed it."""
    seconds: float = EXPIRY_SECONDS
    clock: Callable[[], float] = time.time

    def ask(self, run: str, position: int, step: Step, caller: Caller, refusal: ApprovalRequired) -> Approval:
        files = self.files(caller)
        now = self.clock()
        grant = self.grant_for(step.operation, caller)
        is_command = isinstance(step.operation, RunCommand)
        shown: dict[str, Any] = {
            "operationId": step.id,
            "operation": {"type": step.tool, **step.operation.summary()},
            "policy": "shell.approvalRequired" if is_command else "filesystem.approvalRequired",
            "reason": refusal.details.get("reason", refusal.message),
            "rule": refusal.details.get("rule"),
            "suggestion": refusal.hint,
            **(
                self._command(step.operation)
                if isinstance(step.operation, RunCommand)
                else difference(files, step.operation)
            ),
            "user": caller.user,
            "agent": caller.agent,
            "session": caller.session,
            "token": caller.token,
            "createdAt": text_of_seconds(now),
            "expiresAt": text_of_seconds(now + self.seconds),
            "remember": None if grant is None else grant.text,
        }
        return Approval(
            id=f"apr_{secrets.token_hex(8)}",
            run=run,
            position=position,
            operation_id=step.id,
            digest=digest_of(step.operation),
            files=hashes(files, step.operation),
            shown={name: value for name, value in shown.items() if value is not None},
            grant=grant,
            created_at=now,
            expires_at=now + self.seconds,
        )

    def _command(self, operation: RunCommand) -> dict[str, Any]:
        lost = list(self.foresee().get("notKept", ()))
        said: dict[str, Any] = {"command": operation.command, "cwd": operation.cwd}
        if operation.environment:
            said["env"] = operation.environment
        if lost:
            said["notKept"] = lost[:MAX_NAMED]
        return said

    def changed(self, approval: Approval, step: Step, caller: Caller) -> list[str]:
        """What is not as it was shown."""
        if digest_of(step.operation) != approval.digest:
            return [step.id]
        now = hashes(self.files(caller), step.operation)
        return sorted(path for path in {*now, *approval.files} if now.get(path) != approval.files.get(path))

    def has_expired(self, approval: Approval) -> bool:
        return self.clock() >= approval.expires_at


def digest_of(operation: Operation) -> str:
    return hashlib.sha256(f"{operation.kind} {operation.model_dump_json()}".encode()).hexdigest()


def hashes(files: Files, operation: Operation) -> dict[str, str | None]:
    """The files that an operation names to change, with what is in them now."""
    return {touch.path: _hash(files, touch.path) for touch in touches(operation) if touch.access is Access.WRITE}


def bound(operation: Operation, approval: Approval) -> Operation:
    """The operation as it was agreed to: it fails if a file is not the one that was shown."""
    if isinstance(operation, WriteFile | ModifyFile | DeleteFile) and operation.expected_hash is None:
        known = approval.files.get(operation.path)
        if known is not None and known != FOLDER:
            return operation.model_copy(update={"expected_hash": known})
        if known is None and isinstance(operation, WriteFile) and operation.mode == "overwrite":
            return operation.model_copy(update={"mode": "create"})
    return operation


def _hash(files: Files, path: str) -> str | None:
    try:
        stat = files.stat(path, follow=False)
        if stat.kind is Kind.FOLDER:
            return FOLDER
        return digest.of_file(files, path)
    except (OSError, WapError):
        return None


def difference(files: Files, operation: Operation) -> dict[str, Any]:
    """The path as it is resolved, and what would become of the file, as a diff or in words."""
    named = next((touch for touch in touches(operation) if touch.access is Access.WRITE), None)
    if named is None:
        return {}
    try:
        path = files.resolve(named.path, follow=named.follow)
    except (OSError, WapError):
        path = posixpath.normpath(named.path)
    return {"path": display(path), **_difference(files, operation, path)}


def _difference(files: Files, operation: Operation, path: str) -> dict[str, Any]:
    try:
        old = _content(files, path)
        new = _result(operation, old)
    except (OSError, WapError) as error:
        # It would fail as things stand, or cannot be looked at; the person should know that too.
        return {"note": error.text if isinstance(error, WapError) else f"{type(error).__name__}"}
    if new is None:
        return {}
    if b"\0" in old or b"\0" in new:
        return {"note": f"Binary: {len(old)} bytes now, {len(new)} bytes then."}
    diff, is_cut = diffs.unified(display(path), old, new)
    return {"diff": diff, **({"isDiffTruncated": True} if is_cut else {})}


def _content(files: Files, path: str) -> bytes:
    try:
        if files.stat(path, follow=False).kind is Kind.FOLDER:
            return b""
        with files.open(path) as file:
            data = read_up_to(file, MAX_SHOWN)
    except FileNotFoundError:
        return b""
    if len(data) > MAX_SHOWN:
        raise InvalidArgument(f"The file is too large to show a difference ({MAX_SHOWN} bytes).")
    return data


def _result(operation: Operation, old: bytes) -> bytes | None:
    if isinstance(operation, WriteFile):
        return old + operation.content if operation.mode == "append" else operation.content
    if isinstance(operation, ModifyFile):
        return editing.apply(old, operation.changes, max_size=2 * MAX_SHOWN, deadline=Deadline(EDIT_SECONDS))
    if isinstance(operation, DeleteFile | MoveFile):
        return b"" if isinstance(operation, DeleteFile) else None
    return None


def same_question(approval: Approval, operation: Operation, files: dict[str, str | None]) -> bool:
    return approval.digest == digest_of(operation) and json.dumps(dict(approval.files)) == json.dumps(files)
