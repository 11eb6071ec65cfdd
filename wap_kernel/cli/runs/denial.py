"""Run `wap deny RUN REASON`: deny what a run waits for."""

from __future__ import annotations

import argparse
from contextlib import closing

from wap_kernel.cli import endpoint
from wap_kernel.cli.runs import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help="the id of a run or of its approval, or the beginning of one")
    parser.add_argument("reason", nargs="*", metavar="REASON", help="the reason, for the agent")
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    reason = " ".join(args.reason) or None
    with closing(endpoint.open_client(args)) as client:
        denied = options.follow_run(
            args, lambda on_update: client.deny(args.run_id, reason=reason, on_update=on_update)
        )
    return options.rate_request(denied)
