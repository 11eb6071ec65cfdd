"""Grants: what a person allowed "always, here". As narrow as one kind of operation on one path, or one form of command.

A grant turns ask into allow, never deny, and never for a rule that is not grantable; `decision.py` sees to that.
Whatever may make the same words do something else is part of what is granted: the real path, the folder, redirections,
flags. What was stored in a form that is not known any more allows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wap_kernel.model.operations import GitAction, Operation, RunCommand, WriteFile
from wap_kernel.model.paths import PathAccess
from wap_kernel.model.policy import CommandForm, Grant
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.shell.syntax import Redirect, SimpleCommand


@dataclass(frozen=True)
class _Wide:
    """What may differ between two commands of which a person allowed one."""

    operands: re.Pattern[str]
    flags: frozenset[str]
    """Options that are known to take no value. They must be the same; with any other one nothing may differ."""
    texts: frozenset[str] = frozenset()
    """Options of which the value is words for people."""
    bound: int = 0
    """How many of the first operands must be the same."""


_PATH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_BRANCH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(==?[0-9]+(\.[0-9]+)*)?")
"""Of an index: no path, no address (`x@...` is one to pip), and nothing that could be the name of an archive."""
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(@[0-9]+(\.[0-9]+)*)?")


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PIP = _Wide(_PACKAGE, _options("-U --upgrade -q --quiet --user --no-deps --pre --no-input --no-cache-dir"))
_NPM = _Wide(_MODULE, _options("-D --save-dev -E --save-exact --ignore-scripts --no-audit --no-fund"))
_CONDA = _Wide(_PACKAGE, _options("-y --yes -q --quiet"))
_COMMIT = _options("-a --all -q --quiet -s --signoff --amend --allow-empty")

WIDE: Mapping[tuple[str, str], _Wide] = {
    ("git", "add"): _Wide(_PATH, _options("-A --all -u --update -v --verbose")),
    ("git", "commit"): _Wide(_PATH, _COMMIT, texts=_options("-m -am --message")),
    ("git", "fetch"): _Wide(_BRANCH, _options("-p --prune -t --tags -q --quiet -v --verbose"), bound=1),
    ("git", "pull"): _Wide(_BRANCH, _options("-r --rebase --no-rebase --ff-only -q --quiet"), bound=1),
    **dict.fromkeys([("pip", "install"), ("pip3", "install")], _PIP),
    **dict.fromkeys([("npm", "install"), ("npm", "i"), ("npm", "add"), ("yarn", "add"), ("pnpm", "add")], _NPM),
    **dict.fromkeys([("conda", "install"), ("mamba", "install")], _CONDA),
    ("uv", "add"): _Wide(_PACKAGE, _options("--dev -q --quiet")),
}
"""Of these alone the operands may differ. None of them runs a program that it is given, or sends anything away."""

_SIGNS = {"read": "<", "write": ">", "append": ">>"}
_MOVES = frozenset("cd pushd popd".split())


def command_form(command: SimpleCommand, cwd: str) -> CommandForm | None:
    """Return the form of `command`, or None when a word is a glob or a variable.

    A person who approves a glob or a variable has not seen what it stands for tomorrow.
    """
    words = [literal for word in command.words if (literal := word.literal) is not None]
    targets = [each for each in command.redirects if each.target.literal is not None]
    if not words or len(words) < len(command.words) or len(targets) < len(command.redirects):
        return None
    bound, options = _widened(words) or (tuple(words), None)
    return CommandForm(words=bound, options=options, redirects=tuple(map(_redirect, targets)), cwd=cwd)


def _redirect(redirect: Redirect) -> str:
    return f"{_SIGNS[redirect.mode]} {redirect.target.text}"


def _widened(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words that must be the same, and the options. None: everything must."""
    wide = WIDE.get((words[0], words[1])) if len(words) > 1 else None
    if wide is None:
        return None
    options: set[str] = set()
    operands: list[str] = []
    rest = iter(words[2:])
    for word in rest:
        if word in wide.flags or (word in wide.texts and next(rest, None) is not None):
            options.add(word)
        elif wide.operands.fullmatch(word):
            operands.append(word)
        else:
            return None
    if not operands[wide.bound :] and not options & wide.texts:
        return None  # `npm install` alone is not about any package: `npm install x` is something else
    return (*words[:2], *operands[: wide.bound]), tuple(sorted(options))


def grant_for_operation(
    operation: Operation, reached: Sequence[PathAccess], script: Script, commands: Sequence[SimpleCommand]
) -> Grant | None:
    """Return the narrowest grant for `operation`, which reaches `reached`, or None when it cannot be granted.

    `commands` are those that need a grant, among all commands of `script`, the operation's own script.
    """
    if not reached:
        return None
    if not isinstance(operation, RunCommand):
        paths = tuple(access.path for access in reached)
        return Grant(kind="path", operation=operation.kind, paths=paths, flags=tuple(_flags(operation)))
    standing = _standing(operation, script, commands)
    forms = [form for each in standing if (form := command_form(each, reached[0].path)) is not None]
    if not forms or len(forms) < len(standing):
        return None
    return Grant(kind="command", operation=operation.kind, commands=tuple(dict.fromkeys(forms)))


def grant_for_git(operation: GitAction) -> Grant:
    """Return a grant for the same action on the same remote and branch in the same folder, whatever is committed."""
    words = (word for word in ("git", operation.action, operation.url, operation.branch) if word is not None)
    form = CommandForm(words=tuple(words), cwd=operation.folder)
    return Grant(kind="command", operation=operation.kind, commands=(form,))


def covers(grants: Iterable[Grant], needed: Grant | None) -> bool:
    """Whether the grants together allow what is needed."""
    if needed is None:
        return False
    of_kind = [grant for grant in grants if (grant.kind, grant.operation) == (needed.kind, needed.operation)]
    if needed.kind == "command":
        return {form for grant in of_kind for form in grant.commands}.issuperset(needed.commands)
    return any(grant.paths == needed.paths and set(grant.flags).issuperset(needed.flags) for grant in of_kind)


def _flags(operation: Operation) -> Iterator[str]:
    if isinstance(operation, WriteFile):
        # Each does what the one before does, and more.
        modes = ("create", "append", "overwrite")
        yield from modes[1 : modes.index(operation.mode) + 1]
    for name in ("recursive", "overwrite"):
        if getattr(operation, name, False):
            yield name


def _standing(operation: RunCommand, script: Script, commands: Sequence[SimpleCommand]) -> list[SimpleCommand]:
    """The commands as they stand in the line, wrappers included: `env -C sub rm a` is not `rm a`. Empty where anything
    else in the line may change what they do: variables of the caller's, `cd`, or what they are given to read."""
    line = operation.line
    moves = any(word.text in _MOVES for command in script.commands for word in command.words)
    if script.problems or operation.environment or moves or "<<" in line:
        return []
    found = [[at for at, each in enumerate(script.commands) if _holds(each, command)] for command in commands]
    places = sorted({at for places in found for at in places})
    is_piped = "|" in line.replace("||", "")
    if not all(found) or (is_piped and places != [0]):
        return []
    return [script.commands[at] for at in places]


def _holds(command: SimpleCommand, other: SimpleCommand) -> bool:
    """Whether it is or runs the other one."""
    size = len(other.words)
    starts = range(len(command.words) - size + 1)
    return size > 0 and any(command.words[at : at + size] == other.words for at in starts)
