"""Collect the evidence that an approval is bound to: the operation, and the state of the paths that it would change.

Links are resolved. The evidence of a folder is a hash over everything below it. The evidence of a command is in
`policy/commands/command_evidence.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import Files
from wap_kernel.files.path_state import ABSENT, describe_path
from wap_kernel.git.remote import preview
from wap_kernel.model.command import Deadline
from wap_kernel.model.git.operations import GitTransfer
from wap_kernel.model.operations import DeleteFile, ModifyFile, Operation, WriteFile
from wap_kernel.model.run import Approval
from wap_kernel.policy.commands.named_paths import Surroundings
from wap_kernel.providers.mounts import ALIAS
from wap_kernel.providers.process.environment import build_environment

EVIDENCE_SECONDS = 5.0


def digest_operation(operation: Operation) -> str:
    return hashlib.sha256(f"{operation.kind} {operation.model_dump_json()}".encode()).hexdigest()


def collect_evidence(files: Files, operation: Operation) -> dict[str, str]:
    """Return the real path and the state of each path of the operation, by the path as the operation names it."""
    deadline = Deadline(EVIDENCE_SECONDS)
    return {
        access.path: describe_path(files, access.path, deadline, follow=access.follow)
        for access in operation.path_accesses()
    }


def changed_paths(before: Mapping[str, str | None], now: Mapping[str, str]) -> list[str]:
    return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))


def describe_surroundings(workspace: Workspace) -> Surroundings:
    """Return the names of a workspace and the variables of its commands."""
    return Surroundings(
        root=workspace.root,
        other_names=(ALIAS, *(name for name in workspace.names_of_root if name != workspace.root)),
        variables=build_environment(os.environ, {}),
    )


def bind_operation(operation: Operation, approval: Approval) -> Operation:
    """Return the operation bound to what the approval showed: at the real path, failing if the file is another."""
    if isinstance(operation, GitTransfer):
        return preview.bind_evidence(operation, approval.files)
    if not isinstance(operation, WriteFile | ModifyFile | DeleteFile):
        return operation
    real, _, content = str(approval.files.get(operation.path) or "").rpartition(" ")
    update: dict[str, object] = {"path": real} if real else {}
    if content.startswith("sha256:") and operation.expected_hash is None:
        update["expected_hash"] = content
    elif content == ABSENT and isinstance(operation, WriteFile) and operation.mode == "overwrite":
        update["mode"] = "create"
    return operation.model_copy(update=update)
