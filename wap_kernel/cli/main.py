"""Run the `wap` command: a table of sub-commands, each in a module that is imported when it is called.

Such a module has `add_arguments(parser)` and `run(args) -> int`, which returns the exit status.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from wap_kernel.model.errors import WapError
from wap_kernel.model.hints import address_person
from wap_kernel.model.package import __version__

SUBCOMMANDS: tuple[tuple[str, str, str], ...] = (
    ("doctor", "check what works on this machine, and how to fix what does not", "wap_kernel.cli.doctor"),
    ("token", "make, list and revoke tokens for agents", "wap_kernel.cli.token"),
    ("run", "send a batch of operations", "wap_kernel.cli.run"),
    ("runs", "list the runs, newest first", "wap_kernel.cli.runs.run_table"),
    ("show", "show a run: its outcome, its changes as diffs, what it waits for", "wap_kernel.cli.runs.details"),
    ("approve", "approve what a run waits for", "wap_kernel.cli.runs.approval"),
    ("deny", "deny what a run waits for", "wap_kernel.cli.runs.denial"),
    ("cancel", "cancel a run", "wap_kernel.cli.runs.cancellation"),
    ("revert", "undo the changes of a run", "wap_kernel.cli.runs.undo"),
    ("mcp", "serve the tools to an MCP client over stdio", "wap_kernel.cli.mcp"),
    ("audit", "show, verify and export the audit", "wap_kernel.cli.audit"),
    ("gc", "remove old and excess runs, audit records and tokens", "wap_kernel.cli.gc"),
)
"""The name, help and module of each sub-command."""

USAGE_ERROR = 2
FAILURE = 1
NOT_RUN = 3
"""The exit status of every error of a sub-command for runs: 1 and 2 tell there how a run ended."""
_RUN_COMMANDS = frozenset({"run", "runs", "show", "approve", "deny", "cancel", "revert"})


class _Parser(argparse.ArgumentParser):
    """A parser whose usage errors have an exit status of their own."""

    usage_status = USAGE_ERROR

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.usage_status, f"{self.prog}: error: {message}\n")


class _Module(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status."""
    _open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="wap", description="Files, commands and git for agents, inside Jupyter.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"wap {__version__}")
    commands = parser.add_subparsers(title="sub-commands", metavar="COMMAND")
    chosen = arguments[0] if arguments else None
    failure = NOT_RUN if chosen in _RUN_COMMANDS else FAILURE
    named: _Parser | None = None
    for name, text, module_name in SUBCOMMANDS:
        subparser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name == chosen:  # the others stay unloaded: `wap --help` must not wait for them
            module = cast(_Module, importlib.import_module(module_name))
            module.add_arguments(subparser)
            named, subparser.usage_status = subparser, NOT_RUN if name in _RUN_COMMANDS else USAGE_ERROR
            subparser.set_defaults(run=module.run)
    names = [name for name, _, _ in SUBCOMMANDS]
    if chosen is not None and not chosen.startswith("-") and chosen not in names:
        return _reject_unknown(chosen, names)
    if chosen is None:
        parser.print_help()
        return 0
    args, unknown = parser.parse_known_args(arguments)
    if unknown or named is None:
        (named or parser).error(f"unrecognized arguments: {' '.join(unknown or arguments)}")
    try:
        return int(args.run(args))
    except WapError as error:
        sys.stderr.write(f"wap: {address_person(error.text)}\n")
        return failure
    except KeyboardInterrupt:
        return failure
    except OSError as error:  # most likely of standard output: `wap audit export | head`, or a full disk
        if not isinstance(error, BrokenPipeError):
            filename = "" if error.filename is None else f": {error.filename}"
            sys.stderr.write(f"wap: {error.strerror or error}{filename}\n")
        # The text that is still buffered must not fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


def _open_closed_streams() -> None:
    """Open streams that the parent process closed (`wap run - <&- >&-`), for which Python has no object."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the process's life


def _reject_unknown(chosen: str, names: Sequence[str]) -> int:
    nearest = difflib.get_close_matches(chosen, names, n=1)
    hint = f"Did you mean `wap {nearest[0]}`?" if nearest else f"Choose one of: {', '.join(names)}."
    sys.stderr.write(f"wap: there is no sub-command {chosen!r}. {hint}\n")
    return USAGE_ERROR
