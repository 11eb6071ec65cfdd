"""The table of sub-commands and their arguments; `execute` holds their actions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import PERSON_COMMAND_SECONDS
from wap_kernel.notebook.language import aliases
from wap_kernel.notebook.language import argument_parser as arguments
from wap_kernel.notebook.language.argument_parser import Arguments, suggest

STATUSES = ("running", "awaiting_approval", "completed", "cancelled", "error")

_TIMEOUT_HELP = f"end the command after so long (default: {PERSON_COMMAND_SECONDS}, or what policy allows)"


@dataclass(frozen=True)
class SubCommand:
    """A sub-command of `%wap`."""

    name: str
    summary: str
    declare: Callable[[Arguments], None]
    example: str = ""
    verbatim: bool = False
    """True where the text after the options is one argument, quotes and all."""
    bare: bool = False
    """True for a verbatim sub-command without options of its own."""
    body: bool = False
    """True where the sub-command may head a cell and take its text."""
    changes: bool = False
    """True where the sub-command changes something, which is displayed even if its result is not used."""

    def arguments(self) -> Arguments:
        parser = Arguments(self.name, self.summary)
        self.declare(parser)
        if self.bare:
            parser.set_defaults(quiet=False, raises=False, to=None)
        else:
            _add_common(parser)
        return parser


def _add_common(parser: Arguments) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="display nothing when all goes well")
    parser.add_argument("--raise", dest="raises", action="store_true", help='raise failures, so that "Run all" stops')
    parser.add_argument(
        "--to", type=arguments.parse_variable_name, metavar="NAME", help="bind the answer to this Python variable"
    )


def _add_run_options(parser: Arguments) -> None:
    """Add the options of all sub-commands that change something."""
    parser.add_argument("-y", "--yes", action="store_true", help="approve every operation that needs it")
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing: show diffs and verdicts")
    parser.add_argument(
        "-w",
        "--wait",
        type=arguments.parse_seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait for another person to approve",
    )


def _no_arguments(parser: Arguments) -> None:
    pass


def _ls(parser: Arguments) -> None:
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="a folder (default: the workspace)")
    parser.add_argument("-r", "--recursive", action="store_true", help="list its folders, too")
    parser.add_argument(
        "-d", "--depth", type=arguments.parse_count, metavar="N", help="the number of levels (implies -r)"
    )


def _read(parser: Arguments) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("window", nargs="?", type=arguments.parse_line_range, metavar="LINES", help="10:20, 10: or :20")
    parser.add_argument(
        "-l", "--lines", type=arguments.parse_line_range, metavar="LINES", help="the range as an option"
    )


def _search(parser: Arguments) -> None:
    parser.add_argument("pattern", metavar="TEXT", help="the text to search for, within one line")
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="where (default: the workspace)")
    parser.add_argument("-e", "--regex", action="store_true", help="TEXT is a regular expression")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="ignore case")
    parser.add_argument(
        "-g", "--glob", action="append", metavar="GLOB", help="search only files that match, such as **/*.py"
    )
    parser.add_argument("-c", "--context", type=int, choices=range(11), default=2, metavar="N", help="lines of context")


def _write(parser: Arguments) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("content", nargs="?", metavar="TEXT", help="the content; in a cell, the text below")
    parser.add_argument("--new", action="store_true", help="fail if the file exists")
    _add_run_options(parser)


def _edit(parser: Arguments) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("old", metavar="OLD", help="the text whose first occurrence is replaced")
    parser.add_argument("new", metavar="NEW")
    _add_run_options(parser)


def _rm(parser: Arguments) -> None:
    parser.add_argument("path", metavar="PATH")
    _add_run_options(parser)


def _sh(parser: Arguments) -> None:
    parser.add_argument(
        "command", nargs="?", metavar="COMMAND", help="the rest of the line as it is, or the cell below"
    )
    parser.add_argument("-t", "--timeout", type=arguments.parse_time_limit, metavar="SECONDS", help=_TIMEOUT_HELP)
    parser.add_argument("-C", "--cwd", metavar="DIR", help="the folder to run in (default: the workspace)")
    parser.add_argument("--shared", action="store_true", help="write into the workspace directly; not undone")
    _add_run_options(parser)


def _git(parser: Arguments) -> None:
    parser.add_argument("command", nargs="?", metavar="ARGUMENTS", help='for options of wap, write "sh -y git ..."')


def _run(parser: Arguments) -> None:
    _add_run_options(parser)
    parser.add_argument("-a", "--atomic", action="store_true", help="the first failure undoes everything")
    parser.add_argument("--no-vars", action="store_true", help="leave {{name}} as it is")


def _check(parser: Arguments) -> None:
    parser.add_argument("command", nargs="?", metavar="LINE", help="sh, git, write, edit, rm or read, or a command")


def _runs(parser: Arguments) -> None:
    parser.add_argument("-s", "--status", choices=STATUSES, metavar="STATUS", help=", ".join(STATUSES))
    parser.add_argument(
        "-n", "--limit", type=arguments.parse_count, default=20, metavar="N", help="how many (default: 20)"
    )


def _one_run(parser: Arguments) -> None:
    parser.add_argument("run", metavar="RUN", help='its id, the beginning of it, or "last"')


def _show(parser: Arguments) -> None:
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help="(default: the last one)")


def _approve(parser: Arguments) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="(default: the only one that waits)")
    parser.add_argument("--always", action="store_true", help="and grant the same for good")


def _deny(parser: Arguments) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="(default: the only one that waits)")
    parser.add_argument("reason", nargs="*", metavar="REASON", help="the reason for the agent")


def _revert(parser: Arguments) -> None:
    _one_run(parser)
    parser.add_argument("-f", "--force", action="store_true", help="revert later changes, too")


def _apply(parser: Arguments) -> None:
    _one_run(parser)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these files and folders (default: everything)")


def _audit(parser: Arguments) -> None:
    parser.add_argument(
        "-n", "--limit", type=arguments.parse_count, default=20, metavar="N", help="how many (default: 20)"
    )
    parser.add_argument("--tool", metavar="TOOL", help="only records of this tool, such as writeFile")
    parser.add_argument("--outcome", metavar="OUTCOME", help="only records with this outcome, such as denied")


def _grants(parser: Arguments) -> None:
    parser.add_argument("--revoke", metavar="GRANT", help="revoke this grant")


def _help(parser: Arguments) -> None:
    parser.add_argument("about", nargs="?", metavar="CMD")


_TABLE = (
    SubCommand("ls", "List a folder.", _ls, "ls src -r"),
    SubCommand("read", "Read a file, or some of its lines.", _read, "read app.py 10:20"),
    SubCommand("search", "Search for a text.", _search, "search TODO src -i"),
    SubCommand("write", "Create or replace a file.", _write, 'write notes.txt "hello"', body=True, changes=True),
    SubCommand("edit", "Replace a text in a file.", _edit, 'edit app.py "x = 1" "x = 42"', changes=True),
    SubCommand("rm", "Delete a file.", _rm, "rm old.txt", changes=True),
    SubCommand("sh", "Run a command.", _sh, "sh -t 60 pytest -q | tail", verbatim=True, body=True, changes=True),
    SubCommand("git", "Run git.", _git, "git status", verbatim=True, bare=True, changes=True),
    SubCommand("run", "Run the batch in the cell: JSON or YAML.", _run, "run --dry-run", body=True, changes=True),
    SubCommand(
        "check", "Check a line by policy, without running it.", _check, "check sh make", verbatim=True, body=True
    ),
    SubCommand("runs", "List the runs, newest first.", _runs, "runs -s awaiting_approval"),
    SubCommand("show", "Show a run.", _show, "show last"),
    SubCommand("approve", "Approve what a run waits for; show it first.", _approve, "approve", changes=True),
    SubCommand("deny", "Deny what a run waits for.", _deny, "deny last not today", changes=True),
    SubCommand("cancel", "Cancel a run.", _one_run, "cancel last", changes=True),
    SubCommand("revert", "Revert a run.", _revert, "revert last", changes=True),
    SubCommand("apply", "Apply changes that a run could not apply.", _apply, "apply last data.csv", changes=True),
    SubCommand("audit", "Show the audit.", _audit, "audit -n 50"),
    SubCommand("status", "Show the workspace, the server and what waits for approval.", _no_arguments, "status"),
    SubCommand("policy", "Show the policy.", _no_arguments, "policy"),
    SubCommand("grants", "List the grants.", _grants, "grants"),
    SubCommand("help", "Show this, or the help of a sub-command.", _help, "help sh"),
)
COMMANDS = {command.name: command for command in _TABLE}
PYTHON_OPTIONS = ("to", "no_vars")
LISTING_COMMANDS = ("status", "runs", "help")
"""Sub-commands that list what waits for approval, or need no server: no notice follows them."""
DEFAULT_COMMAND = "status"
"""The sub-command of a line that names none."""


def find_command(name: str, rest: str = "") -> SubCommand:
    """Return a sub-command by its name; `rest` is the text after the name, for a suggestion."""
    name = name or DEFAULT_COMMAND
    if name in COMMANDS:
        return COMMANDS[name]
    if name.startswith("%"):
        raise InvalidArgument(
            f"There is no sub-command {name!r}.", hint='This kernel has no magics; "help" lists the sub-commands.'
        )
    if (alias := aliases.find_alias(name, rest)) is not None:
        here, line = alias
        raise InvalidArgument(f"There is no sub-command {name!r}; did you mean {here}?", hint=f"Write: %wap {line}")
    near = suggest(name, COMMANDS)
    raise InvalidArgument(f"There is no sub-command {name!r}{near or '.'}", hint='"help" lists them.')


def usage(name: str, *, has_python: bool = True) -> str:
    """Return the help of a sub-command, or of all for ""; without Python, leave out options for variables."""
    if not name:
        return _list_commands()
    command = find_command(name)
    example = f"\n\nexample: {command.example}" if command.example else ""
    parser = command.arguments()
    for action in parser._actions:
        if action.dest in PYTHON_OPTIONS and not has_python:
            action.help = argparse.SUPPRESS
    return parser.format_help().strip() + example


def _list_commands() -> str:
    width = max(len(command.example) for command in _TABLE)
    rows = [f"  {command.example:{width}}  {command.summary}" for command in _TABLE]
    return "\n".join(
        [
            "Sub-commands, by example:",
            *rows,
            "",
            "Each has its own --help. Without a sub-command: the status. A cell may hold a batch, in JSON or YAML.",
        ]
    )
