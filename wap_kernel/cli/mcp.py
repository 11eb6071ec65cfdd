"""Run `wap mcp [DIR]`: serve the tools to an MCP client that starts its servers itself and talks to them over stdio.

On a folder, the engine runs in this process, with the state that a Jupyter server on the same folder shares. With
`--url`, a running server executes the calls, and this process forwards the messages.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import NoReturn

from wap_kernel.client.background import run_in_thread
from wap_kernel.model.errors import InvalidArgument, WapError

FAILURE = 1
GRACE_SECONDS = 5.0
"""The time that requests get after the client has closed its end; clients end the process themselves later on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder to work in (default: this one)")
    parser.add_argument("--url", help="instead of a folder: the address of a running Jupyter server, with its base URL")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="a file with its token, or an agent token (default: WAP_TOKEN)",
    )
    parser.add_argument(
        "--profile", metavar="P", help="offer only these tools: read, edit, notebook or all (default: all)"
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help="seconds to go on with requests after standard input has ended (default: %(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    if args.url is None:
        if args.token_file is not None:
            raise InvalidArgument("--token-file goes with --url.")
        from wap_kernel.dialects.mcp.stdio.serve import serve
        from wap_kernel.engine.jupyter_config import read_settings

        settings = read_settings()
        options = {"profile": args.profile, "grace": args.grace}
        return asyncio.run(_until_stopped(lambda stop: serve(args.folder or ".", settings, stop, **options)))
    if args.folder is not None:
        raise InvalidArgument("Name a folder or --url, not both.")
    # Other clients need the address of the MCP endpoint, so people paste it here, too.
    url = args.url.strip().rstrip("/").removesuffix("/wap/mcp")
    return asyncio.run(_until_stopped(partial(_forward, url, _read_token(args.token_file), args.profile, args.grace)))


async def _forward(url: str, token: str, profile: str | None, grace: float, stop: asyncio.Event) -> None:
    """Forward messages to the server at `url` until standard input ends, or `stop` is set; then end the session."""
    from wap_kernel.client.http.http_client import HttpClient
    from wap_kernel.client.mcp.bridge import McpBridge
    from wap_kernel.dialects.mcp.stdio.lines import LineWriter, claim_stdin

    loop = asyncio.get_running_loop()
    writer = LineWriter(on_failure=lambda: loop.call_soon_threadsafe(stop.set))
    bridge = McpBridge(HttpClient.open(url, token), writer.write, profile)
    with claim_stdin() as standard_input:
        running: Future[object] = run_in_thread(lambda: bridge.run(standard_input, grace), "wap-mcp-bridge")
        stopping: asyncio.Future[object] = asyncio.ensure_future(stop.wait())
        forwarding: asyncio.Future[object] = asyncio.wrap_future(running)
        await asyncio.wait({forwarding, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await asyncio.to_thread(bridge.close)
        writer.close()
        if forwarding.done():
            forwarding.result()


def _read_token(file: Path | None) -> str:
    if file is None:
        return os.environ.get("WAP_TOKEN", "")
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The token file {str(file)!r} cannot be read: {error}.") from None


async def _until_stopped(work: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await work(stop)
    except WapError as error:
        sys.stderr.write(f"wap: {error.text}\n")
        _exit_process(FAILURE)
    if stop.is_set():
        _exit_process(0)
    return 0


def _exit_process(status: int) -> NoReturn:
    """Exit without waiting for the thread that reads standard input, which nothing wakes."""
    sys.stderr.flush()
    os._exit(status)
