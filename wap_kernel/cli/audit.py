"""`wap audit show|verify|export`: what was done in a workspace, and whether that record still is what it was.

It reads the state folder itself, so it needs no server and works beside one.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import IO, Any

from wap_kernel.cli import state_option
from wap_kernel.cli.state_option import printable
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.model.limits import MAX_PAGE
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain, query
from wap_kernel.state.audit.hash_chain import Head
from wap_kernel.state.audit.query import OUTCOMES, Page

SHOWN = 50
WIDTH = 160
"""Of what is shown of a path or a command."""
_FORMULA = ("=", "+", "-", "@")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    show = commands.add_parser("show", help="the newest records", allow_abbrev=False)
    show.add_argument("--limit", type=_limit, default=SHOWN, metavar="N", help=f"how many (default: {SHOWN})")
    show.add_argument("--tool", metavar="T", help="of this tool only, by any of its names")
    show.add_argument("--outcome", choices=OUTCOMES, help="that ended like this only")
    show.add_argument("--json", action="store_true", help="for programs")
    show.set_defaults(audit_command=_show)

    verify = commands.add_parser("verify", help="whether nothing was changed or taken away", allow_abbrev=False)
    verify.add_argument(
        "--head",
        action="append",
        default=[],
        metavar="ID:HASH",
        help="a head that was noted elsewhere: the server's log has one every few minutes ('wap audit head ...')",
    )
    verify.add_argument("--json", action="store_true", help="for programs")
    verify.set_defaults(audit_command=_verify)

    export = commands.add_parser("export", help="every record, oldest first, with its hash", allow_abbrev=False)
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="(default: jsonl)")
    export.add_argument("-o", "--output", metavar="FILE", help="where to (default: the terminal)")
    export.set_defaults(audit_command=_export)

    for command in (show, verify, export):
        state_option.add_arguments(command)


def run(args: argparse.Namespace) -> int:
    with closing(schema.connect(state_option.find(args))) as connection:
        try:
            status: int = args.audit_command(args, connection)
        except sqlite3.Error as error:
            raise ProviderUnavailable(
                f"The audit cannot be read: {error}.", hint="`wap audit verify` says more."
            ) from None
        return status


# -- show


def _show(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    answer = query.read(connection, Page(args.limit, tool=args.tool, outcome=args.outcome))
    if args.json:
        _say(json.dumps(answer))
    elif not answer["records"]:
        _say("There are no such records.")
    for record in () if args.json else answer["records"]:
        _say(_line(record))
    return 0


def _line(record: dict[str, Any]) -> str:
    who = "/".join(record[name] for name in ("user", "agent") if name in record)
    took = f"{record['durationMs']:.0f} ms" if "durationMs" in record else "-"
    why = ": ".join(record[name] for name in ("code", "error") if name in record)
    about = ", ".join(f"{name}={_brief(value)}" for name, value in record["summary"].items())
    parts = (record["at"], f"{record['outcome']:10}", f"{took:>9}", record["tool"], f"by {who}", about, why)
    return "  ".join(printable(part) for part in parts if part)


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PAGE):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_PAGE}")
    return int(text)


# -- verify


def _verify(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    report = hash_chain.verify(connection, [Head.parse(text) for text in args.head])
    if args.json:
        found = {"records": report.records, "unchained": report.unchained, "cut": report.cut}
        broken = {} if report.problem is None else {"problem": report.problem}
        _say(json.dumps({"ok": report.problem is None, **found, "head": str(report.head), **broken}))
    elif report.problem is not None:
        _say(f"BROKEN. {report.problem} {report.records} records fit together up to there.")
    else:
        _say(f"{report.records} records, all as they were written. The head is {report.head}.")
        if report.cut:
            _say(f"Retention has cut the records up to {report.cut} ({printable(report.told or '')}).")
        if report.unchained:
            _say(f"{report.unchained} of them are from a version that kept no hashes; the first hash covers them.")
        if not args.head:
            _say("Whether the newest were cut off, or all written anew, shows with --head, from the server's log.")
    return 0 if report.problem is None else 1


# -- export


def _export(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    """A line of JSON is what was hashed, with the hash added: the chain can be checked from the export alone."""
    with _opened(args.output) as file:
        write = _csv(file) if args.format == "csv" else _jsonl(file)
        for row in hash_chain.rows(connection):
            write(row)
    return 0


def _jsonl(file: IO[str]) -> Callable[[hash_chain.Row], None]:
    def write(row: hash_chain.Row) -> None:
        kept = {name: value for name, value in row.items() if value is not None}
        file.write(json.dumps(kept, sort_keys=True, separators=(",", ":")) + "\n")

    return write


def _csv(file: IO[str]) -> Callable[[hash_chain.Row], None]:
    names = (*hash_chain.COLUMNS, hash_chain.HASH)
    writer = csv.writer(file)
    writer.writerow(names)
    return lambda row: writer.writerow([_cell(row[name]) for name in names])


def _cell(value: object) -> str:
    """A spreadsheet would calculate what begins like a formula, and an agent chooses what stands here."""
    text = "" if value is None else printable(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"The file {path!r} cannot be written: {error.strerror}.") from None
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        yield file


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
