"""Create approvals, which show a person the operation, its command or diff, the rule and the caller.

A decision holds for what the approval showed (see `approval_evidence.py`). When that has changed by the time of the
decision, a new approval takes its place.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.engine.effects.approval import UnapprovedEffect
from wap_kernel.engine.effects.preview import EffectPreview
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import Files
from wap_kernel.git.remote.preview import TransferPreview
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired
from wap_kernel.model.git.operations import GitAction, GitTransfer
from wap_kernel.model.limits import APPROVAL_SECONDS
from wap_kernel.model.operations import Operation, RevertRun, RunCommand
from wap_kernel.model.policy import Grant
from wap_kernel.model.run import Approval, Step
from wap_kernel.model.text import format_epoch
from wap_kernel.policy.commands.command_evidence import collect_command_evidence, list_bound_paths
from wap_kernel.policy.commands.named_paths import Surroundings
from wap_kernel.redaction.results import CurrentRedactor, redact_value
from wap_kernel.runs import approval_evidence
from wap_kernel.state.undo.preview_diff import find_written_path, preview_difference
from wap_kernel.state.undo.report import Readable, RevertPreview

MAX_NAMED_PATHS = 20
"""Paths that an approval names as not bound."""
_CONTENTS = ("diff", "note", "effect")
"""Fields that show contents of files, in which only the server's own credentials are hidden."""
MAX_BOUND_PATHS = 50
"""Paths that an approval names as bound."""


@dataclass(frozen=True)
class ApprovalRequests:
    """The source of approvals for the operations of one workspace, and the check that they still hold."""

    files: Callable[[Caller], Files]
    """Returns the files of the workspace, as far as the caller may see them."""
    may_read: Callable[[str, Caller], bool]
    """Tells whether the caller may read a file without an approval."""
    may_name: Callable[[str, Caller], bool]
    """Tells whether the caller may know the name of a path."""
    grant_for: Callable[[Operation, Caller, ApprovalRequired], Grant | None]
    """Returns the grant that a person can give with the approval of the operation that a refusal stopped."""
    has_layer: Callable[[str], bool]
    """Tells whether the layer of a command that has run still exists."""
    preview_transfer: Callable[[Operation, Caller], TransferPreview | None]
    """Returns what a transfer by git would send or fetch."""
    preview_revert: Callable[[RevertRun, Caller, Readable], RevertPreview]
    """Returns what a revert would do, and whether the caller may see it."""
    is_layered: bool
    """True where commands run on layers unless they ask for the workspace itself."""
    surroundings: Surroundings
    """The names of the workspace, to find the files that a command line names."""
    redactor: CurrentRedactor
    """Redactor of what approvals show; in a diff or a note it hides the server's own credentials only."""
    seconds: float = APPROVAL_SECONDS
    clock: Callable[[], float] = time.time

    @classmethod
    def for_workspace(cls, workspace: Workspace, seconds: float) -> ApprovalRequests:
        judge, undo = workspace.judge, workspace.undo
        return cls(
            files=judge.files_of,
            may_read=judge.may_read,
            may_name=judge.may_name,
            grant_for=judge.grant_for,
            has_layer=workspace.has_layer,
            preview_transfer=workspace.pipeline.preview_transfer,
            preview_revert=undo.preview_revert,
            is_layered=workspace.layered is not None,
            surroundings=approval_evidence.describe_surroundings(workspace),
            redactor=workspace.redactor,
            seconds=seconds,
        )

    def create(
        self,
        run: str,
        position: int,
        step: Step,
        caller: Caller,
        refusal: ApprovalRequired,
        *,
        files: Files | None = None,
    ) -> Approval:
        """Return a new approval for the operation that `refusal` stopped; it is not stored yet.

        `files` are those of the batch's layer, if it has one.
        """
        files, operation = files or self.files(caller), step.operation
        now = self.clock()
        grant = self.grant_for(operation, caller, refusal)
        transfer = self.preview_transfer(operation, caller)
        private = [] if self.may_show(operation, caller) else ["diff", "note"]
        is_previewed = isinstance(refusal, UnapprovedEffect)
        # A command that has run is approved with its effect: what it would read now no longer counts.
        evidence = {} if is_previewed else self._collect_evidence(files, operation, caller, transfer)
        if isinstance(refusal, UnapprovedEffect):
            kind = _find_kind(operation)
            subject = self._describe_effect(operation, refusal.preview)
            private = [] if all(self.may_read(path, caller) for path in refusal.preview.paths) else ["effect"]
        elif isinstance(operation, RunCommand):
            kind, subject = "shell", self._describe_command(operation, evidence)
        elif isinstance(operation, GitTransfer) and transfer is not None:
            kind, subject = "git", transfer.describe(operation)
        elif isinstance(operation, RevertRun):
            revert = self._preview_revert(operation, caller)
            kind, subject, private = "filesystem", dict(revert.summary), ["diff"] if revert.is_private else []
        else:
            kind, subject = "filesystem", preview_difference(files, operation)
        details: dict[str, Any] = {
            "operationId": step.id,
            "operation": {"type": step.tool, **_describe_operation(operation)},
            "policy": f"{kind}.approvalRequired",
            "reason": refusal.details.get("reason", refusal.message),
            "rule": refusal.details.get("rule"),
            "suggestion": refusal.hint,
            **subject,
            "user": caller.user,
            "agent": caller.agent,
            "session": caller.session,
            "notebook": caller.notebook,
            "token": caller.token,
            "createdAt": format_epoch(now),
            "expiresAt": format_epoch(now + self.seconds),
            "remember": None if grant is None else grant.text,
            "private": private or None,
        }
        return Approval(
            id=f"apr_{secrets.token_hex(8)}",
            run=run,
            position=position,
            operation_id=step.id,
            digest=approval_evidence.digest_operation(operation),
            files=evidence,
            details={
                name: redact_value(
                    value, self.redactor.mask_known if name in ("diff", "note", "effect") else self.redactor
                )
                for name, value in details.items()
                if value is not None
            },
            grant=grant,
            created_at=now,
            expires_at=now + self.seconds,
        )

    def may_show(self, operation: Operation, caller: Caller) -> bool:
        """Return whether a diff shows the caller only what it may read."""
        path = find_written_path(self.files(caller), operation)
        return path is None or self.may_read(path, caller)

    def changed_paths(
        self, approval: Approval, step: Step, caller: Caller, *, is_decided: bool = False, files: Files | None = None
    ) -> list[str]:
        """Return the paths that differ from what the approval showed.

        With `is_decided`, paths that the approval did not show do not count, except for a command: it would run them.
        `files` are those of the batch's layer, if it has one.
        """
        if approval_evidence.digest_operation(step.operation) != approval.digest:
            return [step.id]
        if approval.layer is not None:
            return [] if self.has_layer(approval.layer) else [step.id]
        transfer = self.preview_transfer(step.operation, caller)
        now = self._collect_evidence(files or self.files(caller), step.operation, caller, transfer)
        if is_decided and not isinstance(step.operation, RunCommand):
            now = {path: state for path, state in now.items() if path in approval.files}
        return approval_evidence.changed_paths(approval.files, now)

    def _collect_evidence(
        self, files: Files, operation: Operation, caller: Caller, transfer: TransferPreview | None
    ) -> dict[str, str]:
        if isinstance(operation, RunCommand):
            return collect_command_evidence(files, operation, self.surroundings)
        evidence = approval_evidence.collect_evidence(files, operation) | (transfer.evidence if transfer else {})
        if isinstance(operation, RevertRun):
            evidence |= self._preview_revert(operation, caller).evidence
        return evidence

    def _preview_revert(self, operation: RevertRun, caller: Caller) -> RevertPreview:
        return self.preview_revert(operation, caller, lambda path: self.may_read(path, caller))

    def has_expired(self, approval: Approval) -> bool:
        return self.clock() >= approval.expires_at

    def _describe_effect(self, operation: Operation, preview: EffectPreview) -> dict[str, Any]:
        """Return the command or the action of git with what it did on its layer."""
        effect = dict(preview.effect)
        effect |= {name: self.redactor(effect[name]) for name in ("stdout", "stderr")}
        subject: dict[str, Any] = {"effect": effect, "layerId": preview.layer}
        if not isinstance(operation, RunCommand):
            return {**operation.summary(), **subject}
        if operation.environment:
            subject["env"] = operation.environment
        return {"command": operation.line, "cwd": operation.cwd, **subject}

    def _describe_command(self, operation: RunCommand, evidence: Mapping[str, str]) -> dict[str, Any]:
        subject: dict[str, Any] = {"command": operation.line, "cwd": operation.cwd}
        if operation.isolation == "shared" or not self.is_layered:
            subject["isolation"] = "shared"
        if operation.environment:
            subject["env"] = operation.environment
        bound, too_large = list_bound_paths(evidence)
        if bound:
            subject |= {"boundTo": bound[:MAX_BOUND_PATHS], "boundToCount": len(bound)}
        if too_large:
            subject["notBound"] = too_large[:MAX_NAMED_PATHS]
        return subject


def _find_kind(operation: Operation) -> str:
    """Return the section of the policy that the operation belongs to."""
    if isinstance(operation, RunCommand):
        return "shell"
    return "git" if isinstance(operation, GitAction) else "filesystem"


def _describe_operation(operation: Operation) -> dict[str, Any]:
    """Return the summary of an operation with the flags that widen what it does."""
    flags = {name: True for name in ("recursive", "overwrite") if getattr(operation, name, False)}
    return {**operation.summary(), **flags}
