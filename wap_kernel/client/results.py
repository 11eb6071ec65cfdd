"""Results of the workspace client: programs read their fields, and `wap_kernel.client.render` shows them to people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from wap_kernel.model.errors import ExecutionFailed, WapError

ACTIVE_STATUSES = ("running", "awaiting_approval")
_CHANGES = ("createFile", "editFile", "deleteFile", "moveFile", "copyFile", "createDirectory")


class ClientResult:
    """The backend's answer in `data`; subclasses add properties for the fields that are read most."""

    view: ClassVar[str]
    """The name of the view in `wap_kernel.client.render`."""

    def __init__(self, data: Mapping[str, Any], **request: Any) -> None:
        self.data = data
        self.request: Mapping[str, Any] = request
        """Parameters of the request that the answer does not repeat: `path`, `pattern`, ..."""

    def to_dict(self) -> dict[str, Any]:
        return dict(self.data)

    def __repr__(self) -> str:
        from wap_kernel.client.render import text

        return text(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        from wap_kernel.client.render import bundle

        return bundle(self)


class RunResult(ClientResult):
    """A run: an events message."""

    view = "run"

    @property
    def run_id(self) -> str:
        return str(self.data["runId"])

    @property
    def status(self) -> str:
        return str(self.data["status"])

    @property
    def is_over(self) -> bool:
        return self.status not in ACTIVE_STATUSES

    @property
    def ok(self) -> bool:
        """Return whether the run has completed, and nothing in it failed or was denied."""
        return self.status == "completed" and not self.problems

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.data["events"])

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Return the events of operations that failed or were denied."""
        return [event for event in self.events if is_problem(event)]

    @property
    def files(self) -> list[str]:
        """Return the paths that the run changed, each once."""
        done = (event for event in self.events if event["type"] in _CHANGES and event.get("success"))
        return list(dict.fromkeys(str(event.get("path") or event.get("destination")) for event in done))

    @property
    def stdout(self) -> str:
        """Return the standard output of all commands, in order."""
        return "".join(str(event.get("stdout", "")) for event in self.events if event["type"] == "shell")

    @property
    def pending(self) -> dict[str, Any] | None:
        """Return the approval that the run waits for, or None."""
        return self.data.get("pendingApproval")

    def raise_for_problems(self) -> RunResult:
        """Return the run itself when all went well; else raise, so that "Run all" stops."""
        if self.ok:
            return self
        first = self.problems[0] if self.problems else {}
        message = first.get("error") or first.get("reason") or first.get("message")
        if message is None and "exitCode" in first:
            message = f"{first['command']}: exit code {first['exitCode']}"
        message = message or self.status.replace("_", " ")
        raise ExecutionFailed(f"{self.run_id}: {message}", hint=f"%wap show {self.run_id}", runId=self.run_id)


class FileText(ClientResult):
    """A file, or some of its lines. Request: `path`, `first_line`."""

    view = "file"

    @property
    def text(self) -> str:
        return str(self.data["content"])

    @property
    def hash(self) -> str:
        return str(self.data["hash"])

    def __str__(self) -> str:
        return self.text


class Listing(ClientResult):
    """Files and folders. Request: `path`."""

    view = "listing"

    @property
    def paths(self) -> list[str]:
        return [str(entry["path"]) for entry in self.data["files"]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.data["files"])


class GitOutcome(ClientResult):
    """The answer of git, whose fields depend on the action (`docs/git.md`). Request: `action`."""

    view = "git"

    @property
    def ok(self) -> bool:
        return self.data.get("exit_code") == 0


class ListResult(ClientResult):
    """A result that is a list and can be iterated."""

    items: ClassVar[str]
    """The field that holds the list."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.data[self.items])

    def __len__(self) -> int:
        return len(self.data[self.items])


class SearchHits(ListResult):
    """The matches of a search. Request: `pattern`, `regex`, `ignore_case`."""

    view = "hits"
    items = "matches"

    @property
    def matches(self) -> list[dict[str, Any]]:
        return list(self)

    @property
    def paths(self) -> list[str]:
        return list(dict.fromkeys(str(match["path"]) for match in self))


class NotebookCells(ListResult):
    """The cells of a notebook. Request: `path`."""

    view = "notebook"
    items = "cells"


class RunList(ListResult):
    """Runs, newest first: `{"runs": [...], "nextCursor"?}`."""

    view = items = "runs"


class ApprovalNotice(ListResult):
    """Runs of agents that have begun to wait for approval: `{"runs": [...]}`."""

    view = "approval notice"
    items = "runs"


class Overview(ClientResult):
    """The workspace, its endpoint and what waits for approval.

    `{"endpoint": {"kind", "name", "reason", "tried"?}, "workspace": getWorkspaceInfo, "preset": str,
    "waiting": [runs], "running": count}`
    """

    view = "overview"


class PolicyReport(ClientResult):
    """The answer of `GET wap/policy`."""

    view = "policy"


class VerdictList(ListResult):
    """The verdicts of policy: `{"verdicts": [...]}`. Request: `operations`, the list that was checked."""

    view = items = "verdicts"


class AuditRecords(ListResult):
    """Audit records, newest first: `{"records": [...]}`."""

    view = "audit"
    items = "records"


class GrantList(ListResult):
    """The grants: `{"grants": [...]}`."""

    view = items = "grants"


class Problem(ClientResult):
    """An error that is shown without a traceback: `{"error", "code", "hint"?, "line"?}`."""

    view = "problem"

    @classmethod
    def from_error(cls, error: WapError, **more: Any) -> Problem:
        fields = {"error": error.message, "code": error.code.value, "hint": error.hint, **more}
        return cls({name: value for name, value in fields.items() if value is not None})


class Note(ClientResult):
    """A text of wap itself, such as help: `{"text"}`."""

    view = "note"


def has_written(message: Mapping[str, Any]) -> bool:
    """Return whether a run has written files, each of which it may have created or replaced."""
    is_applied = not (message.get("dryRun") or (message.get("atomic") and message["status"] != "completed"))
    return is_applied and any(event["type"] == "createFile" and event.get("success") for event in message["events"])


def is_problem(event: Mapping[str, Any]) -> bool:
    return event["type"] in ("policyDenied", "error") or event.get("success") is False
