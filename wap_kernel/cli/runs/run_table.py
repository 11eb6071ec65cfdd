"""Run `wap runs`: list the newest runs."""

from __future__ import annotations

import argparse

from wap_kernel.cli import exit_status
from wap_kernel.cli.runs import options
from wap_kernel.model.limits import MAX_PAGE

STATUSES = ("running", "awaiting_approval", "completed", "cancelled", "error")
DEFAULT_RUNS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-s", "--status", choices=STATUSES, metavar="STATUS", help=", ".join(STATUSES))
    parser.add_argument(
        "-n",
        "--limit",
        type=_parse_limit,
        default=DEFAULT_RUNS,
        metavar="N",
        help=f"how many (default: {DEFAULT_RUNS})",
    )
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options.show_answer(args, lambda client: client.runs(status=args.status, limit=args.limit))
    return exit_status.COMPLETED


def _parse_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PAGE):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_PAGE}")
    return int(text)
