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
from pathlib import Path
from typing import NoReturn

from wap_kernel.model.errors import InvalidArgument, WapError

FAILURE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the folder to work in (default: this one)")
    parser.add_argument("--url", help="instead of a folder: the address of a running Jupyter server, with its base URL")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="a file with its token, or an agent token (default: WAP_TOKEN)",
    )


def run(args: argparse.Namespace) -> int:
    if args.url is None:
        if args.token_file is not None:
            raise InvalidArgument("--token-file goes with --url.")
        from wap_kernel.dialects.mcp.stdio.serve import serve
        from wap_kernel.engine.jupyter_config import read_settings

        settings = read_settings()
        return asyncio.run(_until_stopped(lambda stop: serve(args.folder or ".", settings, stop)))
    if args.folder is not None:
        raise InvalidArgument("Name a folder or --url, not both.")
    from wap_kernel.client.address import Address
    from wap_kernel.dialects.mcp.stdio.http_bridge import run_bridge

    # Other clients need the address of the MCP endpoint, so people paste it here, too.
    server = args.url.strip().rstrip("/").removesuffix("/wap/mcp")
    address, token = str(Address.parse(server)), _read_token(args.token_file)
    return asyncio.run(_until_stopped(lambda stop: run_bridge(address, token, stop)))


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
