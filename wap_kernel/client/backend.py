"""What stands behind the hands of a notebook: a server that has the extension, or the engine in this process.

Both take and answer the same dictionaries, those of the REST routes (`docs/runs.md`), and raise the same errors.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Data = dict[str, Any]
Decision = Literal["approved", "denied"]
BEGUN = "begun"


@dataclass(frozen=True)
class Sent:
    """Something that happened in a run: an `event`, a piece of `output`, or a `status`; and before all that, from
    whoever has asked for it, `begun` with the `operations` that are known of it and how many there are in `total`."""

    id: str
    name: str
    data: Data


@dataclass(frozen=True)
class Place:
    """Where operations happen."""

    kind: Literal["server", "embedded"]
    name: str
    """The server's address, or the folder of the embedded engine."""
    reason: str
    """How it was found, or why there is no server."""
    tried: tuple[str, ...] = ()
    """Without a server: each place that was looked at, and what was missing there."""

    @property
    def told(self) -> Data:
        tried = {"tried": list(self.tried)} if self.tried else {}
        return {"kind": self.kind, "name": self.name, "reason": self.reason, **tried}


class Backend(Protocol):
    @property
    def place(self) -> Place: ...

    def call(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        """One WAP tool. What needs approval raises ApprovalRequired, with `runId` and `approvalId` in its details."""

    def start(self, message: Mapping[str, Any], key: str) -> Data:
        """The events message of a run that has begun. With the same key it begins once, however often it is asked."""

    def follow(self, run_id: str, after: str = "", seconds: float | None = None) -> Generator[Sent, None, None]:
        """Everything that happens in a run, from its beginning (or after the `Sent` with that id) to its end; with
        `seconds`, what comes within that time."""

    def get(self, run_id: str) -> Data: ...

    def runs(self, status: str | None, limit: int) -> Data: ...

    def decide(self, run_id: str, approval_id: str, decision: Decision, reason: str | None, *, remember: bool) -> Data:
        """The events message once the run has gone on; it may still be running."""

    def cancel(self, run_id: str) -> Data: ...

    def revert(self, run_id: str, *, force: bool) -> Data:
        """The events message of the run that undoes it."""

    def changes(self, run_id: str) -> Data: ...

    def output(self, run_id: str, operation_id: str, stream: str, offset: int, limit: int) -> Data: ...

    def policy(self) -> Data: ...

    def check(self, message: Mapping[str, Any]) -> Data: ...

    def audit(self, limit: int, tool: str | None, outcome: str | None) -> Data: ...

    def grants(self) -> Data: ...

    def revoke(self, grant_id: str) -> None: ...

    def close(self) -> None: ...
