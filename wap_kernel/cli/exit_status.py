"""The exit statuses of the sub-commands that work with runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wap_kernel.client.results import RunResult

COMPLETED = 0
FAILED = 1
"""Something failed or was denied, or the run was cancelled or still goes on."""
AWAITING_APPROVAL = 2
NOT_RUN = 3
"""The sub-command could not do its work: a mistake in the options or the batch, no server, no such run."""


def rate_run(message: Mapping[str, Any]) -> int:
    """Return the exit status for the events message of a run."""
    run = RunResult(message)
    if run.status == "awaiting_approval":
        return AWAITING_APPROVAL
    return COMPLETED if run.ok else FAILED
