"""Run `wap cancel RUN`: cancel a run that has not ended."""

from __future__ import annotations

import argparse

from wap_kernel.cli import exit_status
from wap_kernel.cli.runs import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="the id of a run, or the beginning of it")
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options.show_answer(args, lambda client: client.cancel(args.run_id))
    return exit_status.COMPLETED
