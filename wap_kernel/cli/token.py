"""Run `wap token create|list|revoke`: manage agent tokens through the server of the current folder.

A person who can run this as the server's user can read the server's own token from Jupyter's runtime folder, which is
the credential that minting needs. The command sends it to that server and prints it nowhere.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wap_kernel.client.discovery import RunningServer, find_server, name_server
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.text import utc_now

LIMITS = (
    ("--operations", "concurrentOperations", "operations under way at once (default: 8)"),
    ("--commands-per-minute", "commandsPerMinute", "commands begun within any minute (default: 60)"),
    ("--bytes-per-day", "bytesWrittenPerDay", "bytes of content written within a day of UTC (default: 1 GiB)"),
)
"""The option, request field and help of each limit; the server has a default for each."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    create = commands.add_parser("create", help="mint a token and show it, this once", allow_abbrev=False)
    create.add_argument("name", metavar="NAME", help="who will hold it; the audit's name for the agent")
    create.add_argument("--tool", action="append", dest="tools", metavar="T", help="a tool it opens (default: all)")
    create.add_argument("--profile", metavar="P", help="instead of --tool: read, edit, notebook or all (default: all)")
    create.add_argument(
        "--preset", metavar="P", help="a preset that binds it besides the server's policy (default: none)"
    )
    create.add_argument(
        "--policy", type=Path, metavar="FILE", help="a policy in JSON that narrows the server's (default: none)"
    )
    create.add_argument(
        "--expires", type=_parse_duration, metavar="7d", help="how long it is good: 30m, 12h, 7d (default: 7d)"
    )
    for option, limit, text in LIMITS:
        create.add_argument(option, type=int, dest=limit, metavar="N", help=text)
    create.set_defaults(token_command=_create)

    listing = commands.add_parser("list", help="show the tokens, never their secrets", allow_abbrev=False)
    listing.set_defaults(token_command=_list)

    revoke = commands.add_parser("revoke", help="end a token at once", allow_abbrev=False)
    revoke.add_argument("name", metavar="NAME", help="the name of the token, or its id")
    revoke.set_defaults(token_command=_revoke)

    for command in (create, listing, revoke):
        command.add_argument("--json", action="store_true", help="answer in JSON")
        command.add_argument("--url", help="the server's address, with its base URL (default: found as Jupyter does)")
        command.add_argument("--token-file", type=Path, metavar="F", help="a file that holds that server's token")


def run(args: argparse.Namespace) -> int:
    if args.token_file is not None and args.url is None:
        raise InvalidArgument("--token-file goes with --url.")
    server = find_server() if args.url is None else name_server(args.url, args.token_file)
    args.token_command(args, server)
    return 0


def _create(args: argparse.Namespace, server: RunningServer) -> None:
    limits = {limit: getattr(args, limit) for _, limit, _ in LIMITS if getattr(args, limit) is not None}
    fields = {
        **{"name": args.name, "tools": args.tools, "profile": args.profile, "preset": args.preset},
        "expiresIn": args.expires,
        "policy": None if args.policy is None else _read_policy(args.policy),
        "limits": limits or None,
    }
    minted = server.request("POST", "wap/tokens", {key: value for key, value in fields.items() if value is not None})
    if args.json:
        _print(json.dumps(minted))
        return
    # Only the token goes to stdout, so that `TOKEN=$(wap token create ...)` takes nothing else.
    sys.stderr.write(
        f"Token {minted['id']} for {minted['name']} until {minted['expiresAt']}. It is shown this once; "
        "an agent sends it as 'Authorization: Bearer wap_...'.\n"
    )
    _print(minted["token"])


def _list(args: argparse.Namespace, server: RunningServer) -> None:
    tokens = _read_tokens(server)
    if args.json:
        _print(json.dumps({"tokens": tokens}))
    elif not tokens:
        _print("There are no agent tokens. `wap token create NAME` mints one.")
    else:
        _print(
            _format_table(
                [("ID", "NAME", "TOOLS", "PRESET", "LAST USED", "ENDS"), *(_token_row(token) for token in tokens)]
            )
        )


def _revoke(args: argparse.Namespace, server: RunningServer) -> None:
    token = _find_token(_read_tokens(server), args.name)
    server.request("DELETE", f"wap/tokens/{quote(token['id'], safe='')}")
    named = "" if token["name"] == token["id"] else f" for {token['name']}"
    _print(json.dumps({"revoked": token["id"]}) if args.json else f"Token {token['id']}{named} is revoked.")


def _find_token(tokens: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the token with this id, or the only one with this name that still opens something."""
    by_id = [token for token in tokens if token["id"] == name]
    named = [token for token in tokens if token["name"] == name]
    chosen = by_id or [token for token in named if _is_valid(token)]
    if not chosen and named:
        raise NotFound(f"The token for {name!r} is not valid any more.", hint="Nothing is left to do.")
    if not chosen:
        raise NotFound("There is no such token.", hint="`wap token list` shows their names and ids.")
    if len(chosen) > 1:
        listed = ", ".join(token["id"] for token in chosen)
        raise InvalidArgument(f"{len(chosen)} tokens have the name {name!r}.", hint=f"Name one by its id: {listed}.")
    return chosen[0]


def _is_valid(token: dict[str, Any]) -> bool:
    return "revokedAt" not in token and str(token["expiresAt"]) > utc_now()


def _read_tokens(server: RunningServer) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = server.request("GET", f"wap/tokens{cursor}")
        tokens += page["tokens"]
        if "nextCursor" not in page:
            return tokens
        cursor = f"?cursor={page['nextCursor']}"


def _token_row(token: dict[str, Any]) -> tuple[str, ...]:
    revoked = token.get("revokedAt")
    ends = f"revoked {_format_minute(revoked)}" if revoked else _format_minute(token["expiresAt"])
    used = _format_minute(token["lastUsedAt"]) if "lastUsedAt" in token else "never"
    return (token["id"], token["name"], ",".join(token.get("tools", ["all"])), token.get("preset", "-"), used, ends)


def _format_minute(moment: str) -> str:
    return f"{moment[:10]} {moment[11:16]}Z"


def _format_table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _read_policy(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The policy {str(path)!r} cannot be read: {error}.") from None


def _parse_duration(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 30m, 12h, 7d or 2w")
    return int(match[1]) * _UNITS[match[2]]


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
