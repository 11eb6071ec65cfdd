"""Run `wap show RUN`: show a run, its changes as diffs, and what it waits for."""

from __future__ import annotations

import argparse

from wap_kernel.cli import exit_status
from wap_kernel.cli.runs import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="?", default="last", metavar="RUN", help=f"{options.RUN_HELP} (default: last)")
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options.show_answer(args, lambda client: client.show(args.run_id))
    return exit_status.COMPLETED
