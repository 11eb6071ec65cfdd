"""`wap run FILE|-`: a batch of operations from the command line, and what becomes of it while it does.

On a folder, the engine works in this process, with the state that a server on the same folder shares: what waits for
approval is decided there. With `--url`, a server does it. Ctrl-C cancels the run.
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

from wap_kernel.client.render.transcript import Lines, Transcript, question
from wap_kernel.engine.jupyter_config import configured
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
"""By the status of the run; any other is a failure."""
NO_TOKEN = "Name a file that holds the server's token, or an agent token (`wap token create NAME`): --token-file FILE."

Output = Lines | Transcript


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="operations in JSON or YAML; - for standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object a line: the events, then all of it")
    parser.add_argument("--atomic", action="store_true", help="the first failure undoes everything")
    parser.add_argument("--dry-run", action="store_true", help="change nothing: show diffs and verdicts")
    parser.add_argument(
        "--wait",
        type=_seconds,
        metavar="SECONDS",
        help="wait no longer: a run on a server goes on, one in this process is cancelled (default: until it ends)",
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--root", metavar="DIR", help="the folder to work in (default: this one)")
    place.add_argument("--url", help="a server's address, with its base URL (default: WAP_URL, else a folder)")
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--token", metavar="T", help="that server's token, or an agent token (default: WAP_TOKEN)")
    secret.add_argument("--token-file", type=Path, metavar="F", help="a file that holds it")


def run(args: argparse.Namespace) -> int:
    message = batch_text.load(args.file)
    message |= {name: True for name, wanted in (("atomic", args.atomic), ("dryRun", args.dry_run)) if wanted}
    output: Output = Lines(_write) if args.json else Transcript(_write)
    client = _client(args)
    if client is not None:
        return _remote(client, message, output, args.wait)
    return asyncio.run(_embedded(args.root or ".", configured(), message, output, args.wait))


# -- in this process


async def _embedded(
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
        begun = await runner.start(parsed.steps(), parsed.options(), caller, dialect=agent_spaces.DIALECT)
        following = asyncio.ensure_future(_show(runner, begun.id, caller, output))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({following, stopping}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not following.done() or following.exception() is not None:
            with suppress(Conflict):  # it has ended just now
                await runner.cancel(begun.id, caller)
        await following
        ended = await runner.message(await runner.get(begun.id, caller), caller)
        return _end(output, ended, f", with a Jupyter server on {workspace.root}")
    finally:
        await runner.close()
        await workspace.close()


async def _show(runner: Runner, run_id: str, caller: Caller, output: Output) -> None:
    async for live in runner.follow(run_id, None, caller):
        output.show(live.name, live.data)
        if _is_waiting(live.name, live.data):
            return


# -- on a server


def _client(args: argparse.Namespace) -> ServerBackend | None:
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


def _remote(client: ServerBackend, message: dict[str, Any], output: Output, wait: float | None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_id = client.start(message, secrets.token_hex(16))["runId"]
    except Unauthenticated as refused:
        refused.hint = NO_TOKEN
        raise
    try:
        for sent in client.follow(run_id, seconds=wait):
            output.show(sent.name, sent.data)
            if _is_waiting(sent.name, sent.data):
                break
    except KeyboardInterrupt:
        _cancel(client, run_id)
    except OSError:  # nobody reads what it says any more, or it cannot be written
        _cancel(client, run_id)
        raise
    return _end(output, client.get(run_id), f" at {client.url}")


def _cancel(client: ServerBackend, run_id: str) -> None:
    with suppress(Conflict):  # it has ended just now
        client.cancel(run_id)


def _is_waiting(name: str, data: Mapping[str, Any]) -> bool:
    return name == "status" and data.get("status") == "awaiting_approval"


def _end(output: Output, message: Mapping[str, Any], where: str) -> int:
    output.end(message, question(message, where) if "pendingApproval" in message else "")
    return EXITS.get(str(message["status"]), FAILURE)


def _write(text: str) -> None:
    """At once, and in what the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
