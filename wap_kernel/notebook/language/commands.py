"""The sub-commands as a table: what each is for and what it takes. What it does stands in `performing`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import aliases
from wap_kernel.notebook.language import argument_parser as arguments
from wap_kernel.notebook.language.argument_parser import Arguments, meant

STATUSES = ("running", "awaiting_approval", "completed", "cancelled", "error")


@dataclass(frozen=True)
class Command:
    name: str
    summary: str
    declare: Callable[[Arguments], None]
    example: str = ""
    verbatim: bool = False
    """What follows its own options is one text, quotes and all."""
    bare: bool = False
    """And it has no options of its own."""
    body: bool = False
    """It may stand at the head of a cell, whose text it takes."""
    changes: bool = False
    """It does something, which is shown even where nobody asks for its answer."""

    def arguments(self) -> Arguments:
        made = Arguments(self.name, self.summary)
        self.declare(made)
        if self.bare:
            made.set_defaults(quiet=False, raises=False, to=None)
        else:
            _always(made)
        return made


def _always(given: Arguments) -> None:
    given.add_argument("-q", "--quiet", action="store_true", help="show nothing when all goes well")
    given.add_argument("--raise", dest="raises", action="store_true", help='raise what fails, so that "Run all" stops')
    given.add_argument("--to", type=arguments.name, metavar="NAME", help="bind the answer to this Python variable")


def _doing(given: Arguments) -> None:
    """What everything that changes something takes."""
    given.add_argument("-y", "--yes", action="store_true", help="you approve what this asks for")
    given.add_argument("-n", "--dry-run", action="store_true", help="change nothing: show diffs and verdicts")
    given.add_argument(
        "-w", "--wait", type=arguments.seconds, default=0.0, metavar="SECONDS", help="wait for somebody to approve"
    )


def _nothing(given: Arguments) -> None:
    pass


def _ls(given: Arguments) -> None:
    given.add_argument("path", nargs="?", default=".", metavar="PATH", help="a folder (default: the workspace)")
    given.add_argument("-r", "--recursive", action="store_true", help="also what is in its folders")
    given.add_argument("-d", "--depth", type=arguments.count, metavar="N", help="so many levels (implies -r)")


def _read(given: Arguments) -> None:
    given.add_argument("path", metavar="PATH")
    given.add_argument("window", nargs="?", type=arguments.window, metavar="LINES", help="10:20, 10: or :20")
    given.add_argument("-l", "--lines", type=arguments.window, metavar="LINES", help="the same as an option")


def _search(given: Arguments) -> None:
    given.add_argument("pattern", metavar="TEXT", help="what to look for, within one line")
    given.add_argument("path", nargs="?", default=".", metavar="PATH", help="where (default: the workspace)")
    given.add_argument("-e", "--regex", action="store_true", help="TEXT is a regular expression")
    given.add_argument("-i", "--ignore-case", action="store_true", help="A is also a")
    given.add_argument("-g", "--glob", action="append", metavar="GLOB", help="only in such files, as **/*.py")
    given.add_argument("-c", "--context", type=int, choices=range(11), default=2, metavar="N", help="lines around")


def _write(given: Arguments) -> None:
    given.add_argument("path", metavar="PATH")
    given.add_argument("content", nargs="?", metavar="TEXT", help="what it is to hold; in a cell, the text below")
    given.add_argument("--new", action="store_true", help="only where there is no such file")
    _doing(given)


def _edit(given: Arguments) -> None:
    given.add_argument("path", metavar="PATH")
    given.add_argument("old", metavar="OLD", help="what is there; its first occurrence is replaced")
    given.add_argument("new", metavar="NEW")
    _doing(given)


def _rm(given: Arguments) -> None:
    given.add_argument("path", metavar="PATH")
    _doing(given)


def _sh(given: Arguments) -> None:
    given.add_argument("command", nargs="?", metavar="COMMAND", help="the rest of the line as it is, or the cell below")
    given.add_argument("-t", "--timeout", type=arguments.time_limit, metavar="SECONDS", help="(default: 30)")
    given.add_argument("-C", "--cwd", metavar="DIR", help="the folder to run in (default: the workspace)")
    _doing(given)


def _git(given: Arguments) -> None:
    given.add_argument("command", nargs="?", metavar="ARGUMENTS", help='options for us go with sh, as "sh -y git ..."')


def _run(given: Arguments) -> None:
    _doing(given)
    given.add_argument("-a", "--atomic", action="store_true", help="the first failure undoes everything")
    given.add_argument("--no-vars", action="store_true", help="leave {{name}} as it is")


def _check(given: Arguments) -> None:
    given.add_argument("command", nargs="?", metavar="LINE", help="sh, git, write, edit, rm or read, or a command")


def _runs(given: Arguments) -> None:
    given.add_argument("-s", "--status", choices=STATUSES, metavar="STATUS", help=", ".join(STATUSES))
    given.add_argument("-n", "--limit", type=arguments.count, default=20, metavar="N", help="how many (default: 20)")


def _one_run(given: Arguments) -> None:
    given.add_argument("run", metavar="RUN", help='its id, the beginning of it, or "last"')


def _show(given: Arguments) -> None:
    given.add_argument("run", nargs="?", default="last", metavar="RUN", help="(default: the last one)")


def _approve(given: Arguments) -> None:
    given.add_argument("run", nargs="?", metavar="RUN", help="(default: the only one that waits)")
    given.add_argument("--always", action="store_true", help="and do not ask again about the same")


def _deny(given: Arguments) -> None:
    given.add_argument("run", nargs="?", metavar="RUN", help="(default: the only one that waits)")
    given.add_argument("reason", nargs="*", metavar="REASON", help="what the agent is told")


def _revert(given: Arguments) -> None:
    _one_run(given)
    given.add_argument("-f", "--force", action="store_true", help="also what was changed since")


def _audit(given: Arguments) -> None:
    given.add_argument("-n", "--limit", type=arguments.count, default=20, metavar="N", help="how many (default: 20)")
    given.add_argument("--tool", metavar="TOOL", help="only of this tool, as writeFile")
    given.add_argument("--outcome", metavar="OUTCOME", help="only with this outcome, as denied")


def _grants(given: Arguments) -> None:
    given.add_argument("--revoke", metavar="GRANT", help="ask again about this one")


def _help(given: Arguments) -> None:
    given.add_argument("about", nargs="?", metavar="CMD")


_TABLE = (
    Command("ls", "What is in a folder.", _ls, "ls src -r"),
    Command("read", "A file, or some of its lines.", _read, "read app.py 10:20"),
    Command("search", "Where a text stands.", _search, "search TODO src -i"),
    Command("write", "Make or replace a file.", _write, 'write notes.txt "hello"', body=True, changes=True),
    Command("edit", "Replace a text in a file.", _edit, 'edit app.py "x = 1" "x = 42"', changes=True),
    Command("rm", "Delete a file.", _rm, "rm old.txt", changes=True),
    Command("sh", "Run a command.", _sh, "sh -t 60 pytest -q | tail", verbatim=True, body=True, changes=True),
    Command("git", "Run git.", _git, "git status", verbatim=True, bare=True, changes=True),
    Command("run", "Run the batch in the cell: JSON or YAML.", _run, "run --dry-run", body=True, changes=True),
    Command("check", "What policy says to a line; nothing is done.", _check, "check sh make", verbatim=True, body=True),
    Command("runs", "What was run, newest first.", _runs, "runs -s awaiting_approval"),
    Command("show", "One run.", _show, "show last"),
    Command("approve", "Let a run go on that waits for you.", _approve, "approve", changes=True),
    Command("deny", "Refuse what a run waits for.", _deny, "deny last not today", changes=True),
    Command("cancel", "End a run.", _one_run, "cancel last", changes=True),
    Command("revert", "Undo a run.", _revert, "revert last", changes=True),
    Command("audit", "What was done, by whom.", _audit, "audit -n 50"),
    Command("status", "The workspace, the server, what waits for approval.", _nothing, "status"),
    Command("policy", "What is allowed here.", _nothing, "policy"),
    Command("grants", "What you allowed for good.", _grants, "grants"),
    Command("help", "This, or the help of a sub-command.", _help, "help sh"),
)
COMMANDS = {command.name: command for command in _TABLE}
OF_PYTHON = ("to", "no_vars")
NAMELESS = "status"
"""What a line without a sub-command means."""


def find(name: str, rest: str = "") -> Command:
    """`rest` is what follows it in the line."""
    name = name or NAMELESS
    if name in COMMANDS:
        return COMMANDS[name]
    if name.startswith("%"):
        raise InvalidArgument(f"There is no sub-command {name!r}.", hint='No magics here; "help" lists what there is.')
    if (habit := aliases.meant(name, rest)) is not None:
        here, line = habit
        raise InvalidArgument(f"There is no sub-command {name!r}; did you mean {here}?", hint=f"Write: %wap {line}")
    near = meant(name, COMMANDS)
    raise InvalidArgument(f"There is no sub-command {name!r}{near or '.'}", hint='"help" lists them.')


def usage(name: str, *, has_python: bool = True) -> str:
    """The help of a sub-command; "" is the table of them. Without Python there are no variables for it."""
    if not name:
        return _contents()
    command = find(name)
    example = f"\n\nexample: {command.example}" if command.example else ""
    given = command.arguments()
    for action in given._actions:
        if action.dest in OF_PYTHON and not has_python:
            action.help = argparse.SUPPRESS
    return given.format_help().strip() + example


def _contents() -> str:
    width = max(len(command.example) for command in _TABLE)
    rows = [f"  {command.example:{width}}  {command.summary}" for command in _TABLE]
    return "\n".join(
        [
            "Sub-commands, by example:",
            *rows,
            "",
            "Every one has its own --help. With none: the status. A cell may hold a batch, in JSON or YAML.",
        ]
    )
