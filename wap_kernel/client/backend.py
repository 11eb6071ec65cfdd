"""The interface behind the workspace client: a server that has the extension, or the engine in this process.

Both take and answer the same dictionaries, those of the REST routes (`docs/runs.md`), and raise the same errors.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Data = dict[str, Any]
Decision = Literal["approved", "denied"]
RUN_STARTED = "begun"


@dataclass(frozen=True)
class RunUpdate:
    """One update of a run: an `event`, a piece of `output`, or a `status`.

    Before all others, the client that started the run sends itself `begun`, with the `operations` that it knows and
    their number in `total`.
    """

    id: str
    name: str
    data: Data


@dataclass(frozen=True)
class Endpoint:
    """The server or folder in which operations are executed."""

    kind: Literal["server", "embedded"]
    name: str
    """The server's address, or the folder of the embedded engine."""
    reason: str
    """The reason for choosing this server, or for working without one."""
    tried: tuple[str, ...] = ()
    """Sources that were tried without finding a server, and what each lacked."""

    def to_dict(self) -> Data:
        tried = {"tried": list(self.tried)} if self.tried else {}
        return {"kind": self.kind, "name": self.name, "reason": self.reason, **tried}


class Backend(Protocol):
    """The calls that a workspace client makes."""

    @property
    def endpoint(self) -> Endpoint: ...

    def call(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        """Call one WAP tool.

        An operation that needs approval raises ApprovalRequired, with `runId` and `approvalId` in its details.
        """

    def call_workspace(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        """Call one tool of the workspace-tool-interface; errors are those of `call`."""

    def start(self, message: Mapping[str, Any], key: str) -> Data:
        """Start a run and return its events message; the same `key` starts one run, however often it is sent."""

    def follow(self, run_id: str, after: str = "", seconds: float | None = None) -> Generator[RunUpdate, None, None]:
        """Yield the updates of a run from its start, or after the update with the id `after`, to its end.

        With `seconds`, stop after that time.
        """

    def get(self, run_id: str) -> Data: ...

    def runs(self, status: str | None, limit: int) -> Data: ...

    def decide(self, run_id: str, approval_id: str, decision: Decision, reason: str | None, *, remember: bool) -> Data:
        """Decide an approval and return the events message of the run, which may still be running."""

    def cancel(self, run_id: str) -> Data: ...

    def revert(self, run_id: str, *, force: bool) -> Data:
        """Revert a run and return the events message of the run that does so."""

    def apply(self, run_id: str, paths: Sequence[str] | None) -> Data:
        """Apply what a run left in its layer, at these paths or all; return the message of the run that does so."""

    def changes(self, run_id: str) -> Data: ...

    def output(self, run_id: str, operation_id: str, stream: str, offset: int, limit: int) -> Data: ...

    def policy(self) -> Data: ...

    def check(self, message: Mapping[str, Any]) -> Data: ...

    def audit(self, limit: int, tool: str | None, outcome: str | None) -> Data: ...

    def grants(self) -> Data: ...

    def revoke(self, grant_id: str) -> None: ...

    def close(self) -> None: ...
