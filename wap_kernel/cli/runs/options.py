"""Options and answers that the sub-commands for runs share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from wap_kernel.cli import endpoint, exit_status, terminal
from wap_kernel.client.render.transcript import Transcript

if TYPE_CHECKING:
    from wap_kernel.client.results import ClientResult, RunResult
    from wap_kernel.client.run_tracker import OnUpdate
    from wap_kernel.client.workspace_client import WorkspaceClient

FOLDER_SERVER = "the server of this folder, else the folder itself"
RUN_HELP = 'the id of a run, the beginning of it, or "last"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    endpoint.add_arguments(parser, FOLDER_SERVER)


def show_answer(args: argparse.Namespace, ask: Callable[[WorkspaceClient], ClientResult]) -> None:
    """Write the answer of the workspace to one request."""
    with closing(endpoint.open_client(args)) as client:
        write_result(args, ask(client))


def follow_run(args: argparse.Namespace, start: Callable[[OnUpdate], RunResult]) -> RunResult:
    """Write the progress of a run, and its pending approval where it waits again."""
    if args.json:
        run = start(lambda _: None)
        write_result(args, run)
        return run
    transcript = Transcript(terminal.write, terminal.open_palette())
    run = start(lambda update: transcript.show(update.name, update.data))
    if run.pending is None:
        transcript.end(run.data, "")
    else:
        terminal.show(run)
    return run


def write_result(args: argparse.Namespace, result: ClientResult) -> None:
    if args.json:
        terminal.write(json.dumps(result.to_dict()) + "\n")
    else:
        terminal.show(result)


def rate_request(run: RunResult) -> int:
    """Return the exit status of a request that was granted, whatever became of the run: only an approval is missing."""
    return exit_status.AWAITING_APPROVAL if run.pending is not None else exit_status.COMPLETED
