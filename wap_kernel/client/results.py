"""What was answered, as objects: programs read their fields, people see them rendered (`wap_kernel.client.render`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from wap_kernel.model.errors import ExecutionFailed, WapError

UNDER_WAY = ("running", "awaiting_approval")
_CHANGES = ("createFile", "editFile", "deleteFile", "moveFile", "copyFile", "createDirectory")


class Answer:
    """Holds what was answered as it came; each kind adds names for what is read most."""

    view: ClassVar[str]
    """How `wap_kernel.client.render` shows it."""

    def __init__(self, data: Mapping[str, Any], **asked: Any) -> None:
        self.data = data
        self.asked: Mapping[str, Any] = asked
        """What was asked for, where the answer does not say it: `path`, `pattern`, ..."""

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


class RunResult(Answer):
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
        return self.status not in UNDER_WAY

    @property
    def ok(self) -> bool:
        """It has come to its end, and nothing in it failed or was denied."""
        return self.status == "completed" and not self.problems

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.data["events"])

    @property
    def problems(self) -> list[dict[str, Any]]:
        """The events of what failed or was denied."""
        return [event for event in self.events if is_problem(event)]

    @property
    def files(self) -> list[str]:
        """The paths that were changed, each once."""
        done = (event for event in self.events if event["type"] in _CHANGES and event.get("success"))
        return list(dict.fromkeys(str(event.get("path") or event.get("destination")) for event in done))

    @property
    def stdout(self) -> str:
        """What all commands wrote, in order."""
        return "".join(str(event.get("stdout", "")) for event in self.events if event["type"] == "shell")

    @property
    def pending(self) -> dict[str, Any] | None:
        """The question that the run waits for."""
        return self.data.get("pendingApproval")

    def raise_for_problems(self) -> RunResult:
        """Itself when all went well; else raises, so that "Run all" stops."""
        if self.ok:
            return self
        first = self.problems[0] if self.problems else {}
        said = first.get("error") or first.get("reason") or first.get("message")
        if said is None and "exitCode" in first:
            said = f"{first['command']}: exit code {first['exitCode']}"
        said = said or self.status.replace("_", " ")
        raise ExecutionFailed(f"{self.run_id}: {said}", hint=f"%wap show {self.run_id}", runId=self.run_id)


class FileText(Answer):
    """A file, or some of its lines. Asked: `path`, `first_line`."""

    view = "file"

    @property
    def text(self) -> str:
        return str(self.data["content"])

    @property
    def hash(self) -> str:
        return str(self.data["hash"])

    def __str__(self) -> str:
        return self.text


class Listing(Answer):
    """Files and folders. Asked: `path`."""

    view = "listing"

    @property
    def paths(self) -> list[str]:
        return [str(entry["path"]) for entry in self.data["files"]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.data["files"])


class Several(Answer):
    """An answer that is a list: what is in it can be walked over."""

    items: ClassVar[str]
    """The field that has them."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.data[self.items])

    def __len__(self) -> int:
        return len(self.data[self.items])


class Hits(Several):
    """What a search found. Asked: `pattern`, `regex`, `ignore_case`."""

    view = "hits"
    items = "matches"

    @property
    def matches(self) -> list[dict[str, Any]]:
        return list(self)

    @property
    def paths(self) -> list[str]:
        return list(dict.fromkeys(str(match["path"]) for match in self))


class Runs(Several):
    """`{"runs": [...], "nextCursor"?}`, newest first."""

    view = items = "runs"


class Overview(Answer):
    """`{"place": {"kind", "name", "reason", "tried"?}, "workspace": getWorkspaceInfo, "preset": str, "waiting": [runs],
    "running": count}`."""

    view = "overview"


class Policy(Answer):
    """What `GET wap/policy` says."""

    view = "policy"


class Verdicts(Several):
    """`{"verdicts": [...]}`. Asked: `operations`, the list that was checked."""

    view = items = "verdicts"


class AuditRecords(Several):
    """`{"records": [...]}`, newest first."""

    view = "audit"
    items = "records"


class Grants(Several):
    """`{"grants": [...]}`."""

    view = items = "grants"


class Problem(Answer):
    """An error, shown without a traceback: `{"error", "code", "hint"?, "line"?}`."""

    view = "problem"

    @classmethod
    def of(cls, error: WapError, **more: Any) -> Problem:
        told = {"error": error.message, "code": error.code.value, "hint": error.hint, **more}
        return cls({name: value for name, value in told.items() if value is not None})


class Note(Answer):
    """A text of our own: `{"text"}`, such as help."""

    view = "note"


def is_problem(event: Mapping[str, Any]) -> bool:
    return event["type"] in ("policyDenied", "error") or event.get("success") is False
