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
from typing import Protocol, cast

from wap_kernel.model.errors import WapError
from wap_kernel.model.package import __version__

SUBCOMMANDS: tuple[tuple[str, str, str], ...] = (
    ("doctor", "check what works on this machine, and how to fix what does not", "wap_kernel.cli.doctor"),
    ("token", "make, list and revoke tokens for agents", "wap_kernel.cli.token"),
    ("run", "send a batch of operations", "wap_kernel.cli.run"),
    ("mcp", "serve the tools to an MCP client over stdio", "wap_kernel.cli.mcp"),
    ("audit", "show, verify and export the audit", "wap_kernel.cli.audit"),
    ("gc", "remove old and excess runs, audit records and tokens", "wap_kernel.cli.gc"),
)
"""The name, help and module of each sub-command."""

USAGE_ERROR = 2
FAILURE = 1


class _Module(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status."""
    _open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="wap", description="Files, commands and git for agents, inside Jupyter.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"wap {__version__}")
    commands = parser.add_subparsers(title="sub-commands", metavar="COMMAND", required=True)
    chosen = arguments[0] if arguments else None
    for name, text, module_name in SUBCOMMANDS:
        subparser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name == chosen:  # the others stay unloaded: `wap --help` must not wait for them
            module = cast(_Module, importlib.import_module(module_name))
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    names = [name for name, _, _ in SUBCOMMANDS]
    if chosen is not None and not chosen.startswith("-") and chosen not in names:
        return _reject_unknown(chosen, names)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except WapError as error:
        sys.stderr.write(f"wap: {error.text}\n")
        return FAILURE
    except KeyboardInterrupt:
        return FAILURE
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
