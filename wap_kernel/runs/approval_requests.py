"""What a person is shown before they agree: the operation, the command or the diff, the path, the rule, who asks.

An agreement is to what was shown (`evidence.py`); the question is asked anew when that is another by the time of the
answer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.files.interface import Files
from wap_kernel.git.remote.preview import Foreseen
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired
from wap_kernel.model.limits import APPROVAL_SECONDS
from wap_kernel.model.operations import GitTransfer, Operation, RevertRun, RunCommand
from wap_kernel.model.policy import Grant
from wap_kernel.model.run import Approval, Step
from wap_kernel.model.timestamps import text_of_seconds
from wap_kernel.redaction.results import CurrentRedactor, redacted
from wap_kernel.runs import approval_evidence
from wap_kernel.state.undo.change_recorder import Nameable, Readable
from wap_kernel.state.undo.preview_diff import difference, path_of
from wap_kernel.state.undo.report import ForeseenRevert

MAX_NAMED = 20
"""Paths that could not be undone, named to a person."""


@dataclass(frozen=True)
class Questions:
    files: Callable[[Caller], Files]
    """As the caller may see them."""
    may_read: Callable[[str, Caller], bool]
    """Whether the caller could read a file without being asked about it."""
    may_name: Callable[[str, Caller], bool]
    """Whether the caller may know what a path is called."""
    grant_for: Callable[[Operation, Caller], Grant | None]
    foresee: Callable[[Nameable], Mapping[str, Any]]
    """What could not be undone if a command changed it, of that which may be told."""
    foresee_transfer: Callable[[Operation, Caller], Foreseen | None]
    """What a transfer by git would be about."""
    foresee_revert: Callable[[RevertRun, Caller, Readable], ForeseenRevert]
    """What a revert would do, and whether the caller may be shown it."""
    redactor: CurrentRedactor
    """Of what is to be agreed to only the server's own credentials are hidden."""
    seconds: float = APPROVAL_SECONDS
    clock: Callable[[], float] = time.time

    def ask(self, run: str, position: int, step: Step, caller: Caller, refusal: ApprovalRequired) -> Approval:
        files, operation = self.files(caller), step.operation
        now = self.clock()
        grant = self.grant_for(operation, caller)
        foreseen = self.foresee_transfer(operation, caller)
        private = [] if self.may_show(operation, caller) else ["diff", "note"]
        if isinstance(operation, RunCommand):
            kind, subject = "shell", self._command(operation, caller)
        elif isinstance(operation, GitTransfer) and foreseen is not None:
            kind, subject = "git", foreseen.told(operation)
        elif isinstance(operation, RevertRun):
            revert = self._revert(operation, caller)
            kind, subject, private = "filesystem", dict(revert.told), ["diff"] if revert.is_private else []
        else:
            kind, subject = "filesystem", difference(files, operation)
        shown: dict[str, Any] = {
            "operationId": step.id,
            "operation": {"type": step.tool, **_told(operation)},
            "policy": f"{kind}.approvalRequired",
            "reason": refusal.details.get("reason", refusal.message),
            "rule": refusal.details.get("rule"),
            "suggestion": refusal.hint,
            **subject,
            "user": caller.user,
            "agent": caller.agent,
            "session": caller.session,
            "token": caller.token,
            "createdAt": text_of_seconds(now),
            "expiresAt": text_of_seconds(now + self.seconds),
            "remember": None if grant is None else grant.text,
            "private": private or None,
        }
        return Approval(
            id=f"apr_{secrets.token_hex(8)}",
            run=run,
            position=position,
            operation_id=step.id,
            digest=approval_evidence.digest_of(operation),
            files=self._evidence(files, operation, caller, foreseen),
            shown={
                name: redacted(value, self.redactor.without_known if name in ("diff", "note") else self.redactor)
                for name, value in shown.items()
                if value is not None
            },
            grant=grant,
            created_at=now,
            expires_at=now + self.seconds,
        )

    def may_show(self, operation: Operation, caller: Caller) -> bool:
        """Whether a diff tells the caller nothing that it could not read."""
        path = path_of(self.files(caller), operation)
        return path is None or self.may_read(path, caller)

    def changed(self, approval: Approval, step: Step, caller: Caller, *, is_decided: bool = False) -> list[str]:
        """What is not as it was shown. Once it is decided, what has only been made since does not count."""
        if approval_evidence.digest_of(step.operation) != approval.digest:
            return [step.id]
        foreseen = self.foresee_transfer(step.operation, caller)
        now = self._evidence(self.files(caller), step.operation, caller, foreseen)
        if is_decided:
            now = {path: state for path, state in now.items() if path in approval.files}
        return approval_evidence.changed(approval.files, now)

    def _evidence(
        self, files: Files, operation: Operation, caller: Caller, foreseen: Foreseen | None
    ) -> dict[str, str]:
        found = approval_evidence.gather(files, operation) | (foreseen.evidence if foreseen else {})
        if isinstance(operation, RevertRun):
            found |= self._revert(operation, caller).evidence
        return found

    def _revert(self, operation: RevertRun, caller: Caller) -> ForeseenRevert:
        return self.foresee_revert(operation, caller, lambda path: self.may_read(path, caller))

    def has_expired(self, approval: Approval) -> bool:
        return self.clock() >= approval.expires_at

    def _command(self, operation: RunCommand, caller: Caller) -> dict[str, Any]:
        lost = list(self.foresee(lambda path: self.may_name(path, caller)).get("notKept", ()))
        said: dict[str, Any] = {"command": operation.line, "cwd": operation.cwd}
        if operation.environment:
            said["env"] = operation.environment
        if lost:
            said["notKept"] = lost[:MAX_NAMED]
        return said


def _told(operation: Operation) -> dict[str, Any]:
    """With what makes it go further than its name says."""
    flags = {name: True for name in ("recursive", "overwrite") if getattr(operation, name, False)}
    return {**operation.summary(), **flags}
