"""Run `wap run FILE|-`: run a batch of operations from the command line, and print its progress.

On a folder, the engine runs in this process, with the state that a server on the same folder shares. With `--url`, a
server executes the run. Ctrl-C cancels the run. `exit_status.py` has the exit statuses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wap_kernel.cli import endpoint, exit_status, terminal
from wap_kernel.client.render.blocks import SHELL_PREFIX
from wap_kernel.client.render.transcript import JsonLines, Transcript, render_pending_approval
from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.engine.open_workspace import open_workspace
from wap_kernel.model.errors import Conflict, Unauthenticated
from wap_kernel.runs import batch_text

if TYPE_CHECKING:
    from wap_kernel.client.server_backend import ServerBackend
    from wap_kernel.model.caller import Caller
    from wap_kernel.runs.runner import Runner

Output = JsonLines | Transcript


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="operations in JSON or YAML; - for standard input")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line: the events, then the events message"
    )
    parser.add_argument("--atomic", action="store_true", help="the first failure undoes everything")
    parser.add_argument("--dry-run", action="store_true", help="change nothing: show diffs and verdicts")
    parser.add_argument(
        "--wait",
        type=_parse_seconds,
        metavar="SECONDS",
        help="wait no longer: a run on a server goes on, one in this process is cancelled (default: until it ends)",
    )
    endpoint.add_arguments(parser, "this folder, in this process")


def run(args: argparse.Namespace) -> int:
    message = batch_text.load_batch(args.file)
    message |= {name: True for name, is_set in (("atomic", args.atomic), ("dryRun", args.dry_run)) if is_set}
    output: Output = JsonLines(terminal.write) if args.json else Transcript(terminal.write, terminal.open_palette())
    server = endpoint.open_named_server(args)
    if server is not None:
        return _run_on_server(server, message, output, args)
    return asyncio.run(_run_embedded(read_settings(), message, output, args))


# -- in this process


async def _run_embedded(
    settings: Mapping[str, Any], message: dict[str, Any], output: Output, args: argparse.Namespace
) -> int:
    from wap_kernel.dialects.agent_spaces import operations as agent_spaces
    from wap_kernel.dialects.registry import open_runner
    from wap_kernel.model.caller import Caller

    parsed = agent_spaces.parse_message(json.dumps(message).encode())
    workspace = open_workspace(args.root or ".", settings)
    runner = open_runner(workspace)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        caller = Caller()
        run = await runner.start(parsed.steps(), parsed.options(), caller, dialect=agent_spaces.DIALECT)
        printing = asyncio.ensure_future(_print_updates(runner, run.id, caller, output))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({printing, stopping}, timeout=args.wait, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not printing.done() or printing.exception() is not None:
            with suppress(Conflict):  # the run has ended just now
                await runner.cancel(run.id, caller)
        await printing
        ended = await runner.message(await runner.get(run.id, caller), caller)
        return _finish(output, ended, endpoint.describe_options(args, workspace.root))
    finally:
        await runner.close()
        await workspace.close()


async def _print_updates(runner: Runner, run_id: str, caller: Caller, output: Output) -> None:
    async for live in runner.stream_events(run_id, None, caller):
        output.show(live.name, live.data)
        if _is_waiting(live.name, live.data):
            return


# -- on a server


def _run_on_server(server: ServerBackend, message: dict[str, Any], output: Output, args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_id = server.start(message, secrets.token_hex(16))["runId"]
    except Unauthenticated as refused:
        refused.hint = endpoint.NO_TOKEN
        raise
    try:
        for update in server.follow(run_id, seconds=args.wait):
            output.show(update.name, update.data)
            if _is_waiting(update.name, update.data):
                break
    except KeyboardInterrupt:
        _cancel(server, run_id)
    except OSError:  # the reader of standard output is gone, or its disk is full
        _cancel(server, run_id)
        raise
    return _finish(output, server.get(run_id), endpoint.describe_options(args))


def _cancel(server: ServerBackend, run_id: str) -> None:
    with suppress(Conflict):  # the run has ended just now
        server.cancel(run_id)


def _is_waiting(name: str, data: Mapping[str, Any]) -> bool:
    return name == "status" and data.get("status") == "awaiting_approval"


def _finish(output: Output, message: Mapping[str, Any], options: str) -> int:
    """Write the end of a run; `options` name its workspace in the lines with which a person decides."""
    is_waiting = "pendingApproval" in message
    palette = terminal.open_palette()
    advice = render_pending_approval(message, SHELL_PREFIX, options, palette) if is_waiting else ""
    output.end(message, advice)
    return exit_status.rate_run(message)


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
