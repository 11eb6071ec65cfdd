"""The `wap` command: one table of sub-commands, each a module of its own that is imported when it is asked for.

Such a module offers `add_arguments(parser)` and `run(args) -> int`, which returns the exit status.
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
from wap_kernel.model.version import __version__

SUBCOMMANDS: tuple[tuple[str, str, str], ...] = (
    ("doctor", "what works on this machine, and how to fix what does not", "wap_kernel.cli.doctor"),
    ("token", "make, list and revoke tokens for agents", "wap_kernel.cli.token"),
    ("run", "send a batch of operations", "wap_kernel.cli.run"),
    ("mcp", "serve the tools to an MCP client over stdio", "wap_kernel.cli.mcp"),
    ("audit", "show, verify and export what was done", "wap_kernel.cli.audit"),
    ("gc", "take away what is too old or too much to keep", "wap_kernel.cli.gc"),
)
"""Name, help, module."""

USAGE_ERROR = 2
FAILURE = 1


class _Module(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    _open_what_is_closed()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="wap", description="Hands for agents, inside Jupyter.", allow_abbrev=False)
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
        return _unknown(chosen, names)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except WapError as error:
        sys.stderr.write(f"wap: {error.text}\n")
        return FAILURE
    except KeyboardInterrupt:
        return FAILURE
    except OSError as error:  # of standard output, most likely: `wap audit export | head`, or its disk is full
        if not isinstance(error, BrokenPipeError):
            named = "" if error.filename is None else f": {error.filename}"
            sys.stderr.write(f"wap: {error.strerror or error}{named}\n")
        # What is still buffered must not fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


def _open_what_is_closed() -> None:
    """`wap run - <&- >&-`: Python has no object for a stream that its parent closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the process's life


def _unknown(chosen: str, names: Sequence[str]) -> int:
    nearest = difflib.get_close_matches(chosen, names, n=1)
    advice = f"Did you mean `wap {nearest[0]}`?" if nearest else f"There are: {', '.join(names)}."
    sys.stderr.write(f"wap: there is no sub-command {chosen!r}. {advice}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
