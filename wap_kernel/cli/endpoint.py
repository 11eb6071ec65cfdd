"""Find the workspace of a sub-command: the server or folder that the options name, else that of the current folder."""

from __future__ import annotations

import argparse
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wap_kernel.model.errors import InvalidArgument, NotFound, Unauthenticated

if TYPE_CHECKING:
    from wap_kernel.client.backend import Backend
    from wap_kernel.client.server_backend import ServerBackend
    from wap_kernel.client.workspace_client import WorkspaceClient

NO_TOKEN = "Name a file that holds the server's token, or an agent token (`wap token create NAME`): --token-file FILE."


def add_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options that name a workspace; `default` says which one is meant without them."""
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--root", metavar="DIR", help="a folder to work in without a server")
    target.add_argument("--url", help=f"a server's address, with its base URL (default: WAP_URL, else {default})")
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--token", metavar="T", help="that server's token, or an agent token (default: WAP_TOKEN)")
    secret.add_argument("--token-file", type=Path, metavar="F", help="a file that holds it")


def open_named_server(args: argparse.Namespace) -> ServerBackend | None:
    """Return the server that the options or the environment name, or None."""
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


def open_client(args: argparse.Namespace) -> WorkspaceClient:
    """Connect to the workspace that the options name, else to the server of the current folder, else to the folder."""
    from wap_kernel.client.workspace_client import WorkspaceClient

    return WorkspaceClient(_open_backend(args))


def describe_options(args: argparse.Namespace, root: str | None = None) -> str:
    """Return the options that name the same workspace in another line, with a space before; never a token.

    `root` is the folder that was used without a server.
    """
    if args.url:
        token_file = "" if args.token_file is None else f" --token-file {shlex.quote(str(args.token_file))}"
        return f" --url {shlex.quote(args.url)}{token_file}"
    if (args.root is None and os.environ.get("WAP_URL")) or root is None:
        return ""
    return f" --root {shlex.quote(root)}"


def _open_backend(args: argparse.Namespace) -> Backend:
    named = open_named_server(args)
    if named is not None:
        return _require(named)
    if args.root is None:
        from wap_kernel.client.discovery import find_server
        from wap_kernel.client.server_backend import ServerBackend

        with suppress(NotFound):  # no server, or one without wap
            found = find_server()
            return _require(ServerBackend(found.url, found.token, is_local=found.is_local))
    from wap_kernel.client.embedded_backend import EmbeddedBackend

    return EmbeddedBackend(args.root or ".")


def _require(server: ServerBackend) -> ServerBackend:
    try:
        server.require()
    except Unauthenticated as refused:
        refused.hint = NO_TOKEN
        server.close()
        raise
    except BaseException:
        server.close()
        raise
    return server
