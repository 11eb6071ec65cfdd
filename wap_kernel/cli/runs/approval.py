"""Run `wap approve RUN`: show what a run waits for, ask, and approve it.

Without a terminal, the line must name the approval by its own id, which only `wap show` and `wap runs --json` tell: so
no operation is approved unseen.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from wap_kernel.cli import endpoint, exit_status, terminal
from wap_kernel.cli.runs import options
from wap_kernel.model.errors import Conflict

if TYPE_CHECKING:
    from wap_kernel.client.results import RunResult
    from wap_kernel.client.workspace_client import WorkspaceClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_id", nargs="?", metavar="RUN", help="the id of a run or of its approval (default: the only one that waits)"
    )
    parser.add_argument("--always", action="store_true", help="and grant the same for good")
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with closing(endpoint.open_client(args)) as client:
        approved = args.run_id
        if not is_approval_id(approved):
            waiting = client.show_pending(approved)
            if not _confirm(args, waiting):
                return exit_status.AWAITING_APPROVAL
            approved = str((waiting.pending or {})["approvalId"])
        return exit_status.rate_run(_approve(args, client, approved).data)


def is_approval_id(name: str | None) -> bool:
    return name is not None and name.startswith("apr_")


def _confirm(args: argparse.Namespace, waiting: RunResult) -> bool:
    """Show the approval and ask the person; raise where there is no terminal to ask at."""
    approval = str((waiting.pending or {})["approvalId"])
    if args.json or not terminal.is_interactive():
        raise Conflict(
            f"{waiting.run_id} waits for an approval that this line has not shown.",
            hint=f"See it with `wap show {waiting.run_id}`, then name it by its own id: wap approve {approval}",
        )
    terminal.show(waiting)
    terminal.write("Approve it" + (", and always from now on" if args.always else "") + "? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _approve(args: argparse.Namespace, client: WorkspaceClient, approval: str) -> RunResult:
    return options.follow_run(
        args, lambda on_update: client.approve(approval, remember=args.always, on_update=on_update)
    )
