"""Conflicts: a command on a layer changes files while a person saves them."""

from __future__ import annotations

from pathlib import Path

from wap_kernel.client.backend import RunUpdate
from wap_kernel.client.results import RunResult
from wap_kernel.client.workspace_client import WorkspaceClient

GATE = "gate"
"""The file that the command reads until it holds something; a layer shows the content of files that exist."""


def change_meanwhile(client: WorkspaceClient, root: Path, *names: str) -> RunResult:
    """Return the run of a command that wrote "command" to these files; "person" was saved there in the meantime."""
    for name in (GATE, *names):
        (root / name).write_text("")

    def save(update: RunUpdate) -> None:
        if update.name == "output":
            for name in (*names, GATE):
                (root / name).write_text("person\n")

    writes = "; ".join(f"echo command > {name}" for name in names)
    return client.sh(f"{writes}; echo written; until [ -s {GATE} ]; do sleep 0.01; done", on_update=save)
