"""Run `wap audit show|verify|export`: show, verify and export the audit of a workspace.

The command reads the state folder itself, so it needs no server and works while one is running.
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
from wap_kernel.cli.state_option import escape_controls
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.model.limits import MAX_PAGE
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain, query
from wap_kernel.state.audit.hash_chain import ChainHead
from wap_kernel.state.audit.query import OUTCOMES, AuditQuery

DEFAULT_RECORDS = 50
MAX_VALUE_CHARACTERS = 160
"""Characters of a path or a command in a line of `wap audit show`."""
_FORMULA = ("=", "+", "-", "@")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    show = commands.add_parser("show", help="show the newest records", allow_abbrev=False)
    show.add_argument(
        "--limit",
        type=_parse_limit,
        default=DEFAULT_RECORDS,
        metavar="N",
        help=f"how many (default: {DEFAULT_RECORDS})",
    )
    show.add_argument("--tool", metavar="T", help="show only records of this tool, by any of its names")
    show.add_argument("--outcome", choices=OUTCOMES, help="show only records with this outcome")
    show.add_argument("--json", action="store_true", help="answer in JSON")
    show.set_defaults(audit_command=_show)

    verify = commands.add_parser("verify", help="check that no record was changed or removed", allow_abbrev=False)
    verify.add_argument(
        "--head",
        action="append",
        default=[],
        metavar="ID:HASH",
        help="a head that was stored elsewhere: the server logs one every few minutes ('wap audit head ...')",
    )
    verify.add_argument("--json", action="store_true", help="answer in JSON")
    verify.set_defaults(audit_command=_verify)

    export = commands.add_parser("export", help="write every record, oldest first, with its hash", allow_abbrev=False)
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="(default: jsonl)")
    export.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: the terminal)")
    export.set_defaults(audit_command=_export)

    for command in (show, verify, export):
        state_option.add_arguments(command)


def run(args: argparse.Namespace) -> int:
    with closing(schema.connect(state_option.find_state_folder(args))) as connection:
        try:
            status: int = args.audit_command(args, connection)
        except sqlite3.Error as error:
            raise ProviderUnavailable(
                f"The audit cannot be read: {error}.", hint="Run `wap audit verify` to find out more."
            ) from None
        return status


# -- show


def _show(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    answer = query.read_records(connection, AuditQuery(args.limit, tool=args.tool, outcome=args.outcome))
    if args.json:
        _print(json.dumps(answer))
    elif not answer["records"]:
        _print("No record matches.")
    for record in () if args.json else answer["records"]:
        _print(_format_record(record))
    return 0


def _format_record(record: dict[str, Any]) -> str:
    who = "/".join(record[name] for name in ("user", "agent") if name in record)
    took = f"{record['durationMs']:.0f} ms" if "durationMs" in record else "-"
    why = ": ".join(record[name] for name in ("code", "error") if name in record)
    about = ", ".join(f"{name}={_shorten(value)}" for name, value in record["summary"].items())
    parts = (record["at"], f"{record['outcome']:10}", f"{took:>9}", record["tool"], f"by {who}", about, why)
    return "  ".join(escape_controls(part) for part in parts if part)


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}..."


def _parse_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PAGE):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_PAGE}")
    return int(text)


# -- verify


def _verify(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    report = hash_chain.verify_chain(connection, [ChainHead.parse(text) for text in args.head])
    if args.json:
        counts = {"records": report.records, "cut": report.cut}
        broken = {} if report.problem is None else {"problem": report.problem}
        _print(json.dumps({"ok": report.problem is None, **counts, "head": str(report.head), **broken}))
    elif report.problem is not None:
        _print(f"BROKEN. {report.problem} {report.records} records fit together before it.")
    else:
        _print(f"{report.records} records are as they were written. The head is {report.head}.")
        if report.cut:
            _print(f"Retention has cut the records up to {report.cut} ({escape_controls(report.cut_by or '')}).")
        if not args.head:
            _print("To check that the newest records were not removed, pass a head from the server's log with --head.")
    return 0 if report.problem is None else 1


# -- export


def _export(args: argparse.Namespace, connection: sqlite3.Connection) -> int:
    """Write the hashed content of each record with its hash, so that the chain can be checked from the export alone."""
    with _open_output(args.output) as file:
        write = _csv_writer(file) if args.format == "csv" else _jsonl_writer(file)
        for row in hash_chain.iterate_records(connection):
            write(row)
    return 0


def _jsonl_writer(file: IO[str]) -> Callable[[hash_chain.Row], None]:
    def write(row: hash_chain.Row) -> None:
        fields = {name: value for name, value in row.items() if value is not None}
        file.write(json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n")

    return write


def _csv_writer(file: IO[str]) -> Callable[[hash_chain.Row], None]:
    names = (*hash_chain.COLUMNS, hash_chain.HASH)
    writer = csv.writer(file)
    writer.writerow(names)
    return lambda row: writer.writerow([_escape_cell(row[name]) for name in names])


def _escape_cell(value: object) -> str:
    """Quote a value that a spreadsheet would calculate as a formula, since agents choose the values."""
    text = "" if value is None else escape_controls(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


@contextmanager
def _open_output(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"The file {path!r} cannot be written: {error.strerror}.") from None
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        yield file


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
