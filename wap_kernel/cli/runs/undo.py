"""Run `wap revert RUN`: undo the changes of a run."""

from __future__ import annotations

import argparse
from contextlib import closing

from wap_kernel.cli import endpoint, exit_status
from wap_kernel.cli.runs import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help=f"{options.RUN_HELP}: the newest that has ended")
    parser.add_argument("-f", "--force", action="store_true", help="revert later changes, too")
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with closing(endpoint.open_client(args)) as client:
        reverted = options.follow_run(
            args, lambda on_update: client.revert(args.run_id, force=args.force, on_update=on_update)
        )
    return exit_status.rate_run(reverted.data)
