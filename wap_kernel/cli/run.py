"""Run `wap run FILE|-`: run a batch of operations from the command line, and print its progress.

On a folder, the engine runs in this process, with the state that a server on the same folder shares: there a person
decides the approvals. With `--url`, a server executes the run. Ctrl-C cancels the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wap_kernel.client.render.transcript import JsonLines, Transcript, render_pending_approval
from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.engine.open_workspace import open_workspace
from wap_kernel.model.errors import Conflict, InvalidArgument, Unauthenticated
from wap_kernel.runs import batch_text

if TYPE_CHECKING:
    from wap_kernel.client.server_backend import ServerBackend
    from wap_kernel.model.caller import Caller
    from wap_kernel.runs.runner import Runner

COMPLETED = 0
FAILURE = 1
AWAITING_APPROVAL = 3
EXITS = {"completed": COMPLETED, "awaiting_approval": AWAITING_APPROVAL}
"""Exit statuses by the status of the run; any other status is a failure."""
NO_TOKEN = "Name a file that holds the server's token, or an agent token (`wap token create NAME`): --token-file FILE."

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
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--root", metavar="DIR", help="the folder to work in (default: this one)")
    target.add_argument("--url", help="a server's address, with its base URL (default: WAP_URL, else a folder)")
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--token", metavar="T", help="that server's token, or an agent token (default: WAP_TOKEN)")
    secret.add_argument("--token-file", type=Path, metavar="F", help="a file that holds it")


def run(args: argparse.Namespace) -> int:
    message = batch_text.load_batch(args.file)
    message |= {name: True for name, is_set in (("atomic", args.atomic), ("dryRun", args.dry_run)) if is_set}
    output: Output = JsonLines(_write) if args.json else Transcript(_write)
    server = _open_server(args)
    if server is not None:
        return _run_on_server(server, message, output, args.wait)
    return asyncio.run(_run_embedded(args.root or ".", read_settings(), message, output, args.wait))


# -- in this process


async def _run_embedded(
    root: str, settings: Mapping[str, Any], message: dict[str, Any], output: Output, wait: float | None
) -> int:
    from wap_kernel.dialects.agent_spaces import operations as agent_spaces
    from wap_kernel.dialects.registry import open_runner
    from wap_kernel.model.caller import Caller

    parsed = agent_spaces.parse_message(json.dumps(message).encode())
    workspace = open_workspace(root, settings)
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
        await asyncio.wait({printing, stopping}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not printing.done() or printing.exception() is not None:
            with suppress(Conflict):  # the run has ended just now
                await runner.cancel(run.id, caller)
        await printing
        ended = await runner.message(await runner.get(run.id, caller), caller)
        return _finish(output, ended, f", with a Jupyter server on {workspace.root}")
    finally:
        await runner.close()
        await workspace.close()


async def _print_updates(runner: Runner, run_id: str, caller: Caller, output: Output) -> None:
    async for live in runner.stream_events(run_id, None, caller):
        output.show(live.name, live.data)
        if _is_waiting(live.name, live.data):
            return


# -- on a server


def _open_server(args: argparse.Namespace) -> ServerBackend | None:
    url = args.url or (None if args.root else os.environ.get("WAP_URL"))
    if not url:
        if args.token or args.token_file:
            raise InvalidArgument("--token and --token-file go with --url.")
        return None
    from wap_kernel.client.server_backend import ServerBackend

    if args.token_file is None:
        return ServerBackend(url, args.token or os.environ.get("WAP_TOKEN", ""))
    try:
        return ServerBackend(url, args.token_file.read_text(encoding="utf-8").strip())
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The token file {str(args.token_file)!r} cannot be read: {error}.") from None


def _run_on_server(server: ServerBackend, message: dict[str, Any], output: Output, wait: float | None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_id = server.start(message, secrets.token_hex(16))["runId"]
    except Unauthenticated as refused:
        refused.hint = NO_TOKEN
        raise
    try:
        for update in server.follow(run_id, seconds=wait):
            output.show(update.name, update.data)
            if _is_waiting(update.name, update.data):
                break
    except KeyboardInterrupt:
        _cancel(server, run_id)
    except OSError:  # the reader of standard output is gone, or its disk is full
        _cancel(server, run_id)
        raise
    return _finish(output, server.get(run_id), f" at {server.url}")


def _cancel(server: ServerBackend, run_id: str) -> None:
    with suppress(Conflict):  # the run has ended just now
        server.cancel(run_id)


def _is_waiting(name: str, data: Mapping[str, Any]) -> bool:
    return name == "status" and data.get("status") == "awaiting_approval"


def _finish(output: Output, message: Mapping[str, Any], where: str) -> int:
    output.end(message, render_pending_approval(message, where) if "pendingApproval" in message else "")
    return EXITS.get(str(message["status"]), FAILURE)


def _write(text: str) -> None:
    """Write and flush `text` in the encoding of the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
