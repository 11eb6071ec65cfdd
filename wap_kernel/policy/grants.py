"""Build and match grants, by which a person allowed an operation "always, here".

A grant is as narrow as one kind of operation on one path, or one form of command. It turns ask into allow, never deny,
and never for a rule that is not grantable; `decide.py` sees to that. Whatever may make the same words do something else
is part of the grant: the real path, the folder, redirections, flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.operations import Operation, RunCommand, WriteFile
from wap_kernel.model.paths import PathAccess
from wap_kernel.model.policy import CommandForm, Grant
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.shell.syntax import Redirect, SimpleCommand


@dataclass(frozen=True)
class _Tolerance:
    """The differences between two commands that one grant covers."""

    operands: re.Pattern[str]
    flags: frozenset[str]
    """Options that are known to take no value. They must be the same; with any other one nothing may differ."""
    texts: frozenset[str] = frozenset()
    """Options whose value is text for people."""
    bound: int = 0
    """Number of leading operands that must be the same."""


_PATH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_BRANCH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(==?[0-9]+(\.[0-9]+)*)?")
"""A package of an index: no path, no address (`x@...` is one to pip), no name that an archive could have."""
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(@[0-9]+(\.[0-9]+)*)?")


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PIP = _Tolerance(_PACKAGE, _options("-U --upgrade -q --quiet --user --no-deps --pre --no-input --no-cache-dir"))
_NPM = _Tolerance(_MODULE, _options("-D --save-dev -E --save-exact --ignore-scripts --no-audit --no-fund"))
_CONDA = _Tolerance(_PACKAGE, _options("-y --yes -q --quiet"))
_COMMIT = _options("-a --all -q --quiet -s --signoff --amend --allow-empty")

TOLERANCES: Mapping[tuple[str, str], _Tolerance] = {
    ("git", "add"): _Tolerance(_PATH, _options("-A --all -u --update -v --verbose")),
    ("git", "commit"): _Tolerance(_PATH, _COMMIT, texts=_options("-m -am --message")),
    ("git", "fetch"): _Tolerance(_BRANCH, _options("-p --prune -t --tags -q --quiet -v --verbose"), bound=1),
    ("git", "pull"): _Tolerance(_BRANCH, _options("-r --rebase --no-rebase --ff-only -q --quiet"), bound=1),
    **dict.fromkeys([("pip", "install"), ("pip3", "install")], _PIP),
    **dict.fromkeys([("npm", "install"), ("npm", "i"), ("npm", "add"), ("yarn", "add"), ("pnpm", "add")], _NPM),
    **dict.fromkeys([("conda", "install"), ("mamba", "install")], _CONDA),
    ("uv", "add"): _Tolerance(_PACKAGE, _options("--dev -q --quiet")),
}
"""Commands whose operands may differ. None of them runs a program that its arguments name, or sends data away."""

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
    bound, options = _apply_tolerance(words) or (tuple(words), None)
    return CommandForm(words=bound, options=options, redirects=tuple(map(_redirect, targets)), cwd=cwd)


def has_tolerance(words: Sequence[str]) -> bool:
    """Return whether a grant for these words is about packages, branches or paths that may differ."""
    return _apply_tolerance(words) is not None


def _redirect(redirect: Redirect) -> str:
    return f"{_SIGNS[redirect.mode]} {redirect.target.text}"


def _apply_tolerance(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the words that must be the same and the options, or None where every word must be the same."""
    wide = TOLERANCES.get((words[0], words[1])) if len(words) > 1 else None
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
    in_line = _find_in_line(operation, script, commands)
    forms = [form for each in in_line if (form := command_form(each, reached[0].path)) is not None]
    if not forms or len(forms) < len(in_line):
        return None
    return Grant(kind="command", operation=operation.kind, commands=tuple(dict.fromkeys(forms)))


def grant_for_git(operation: GitAction) -> Grant:
    """Return a grant for the same action on the same remote and branch in the same folder, whatever is committed."""
    words = (word for word in ("git", operation.action, operation.url, operation.branch) if word is not None)
    form = CommandForm(words=tuple(words), cwd=operation.folder)
    return Grant(kind="command", operation=operation.kind, commands=(form,))


def covers(grants: Iterable[Grant], needed: Grant | None) -> bool:
    """Return whether the grants together allow what is needed."""
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


def _find_in_line(operation: RunCommand, script: Script, commands: Sequence[SimpleCommand]) -> list[SimpleCommand]:
    """Return the commands as they stand in the line, wrappers included: `env -C sub rm a` is not `rm a`.

    The list is empty where anything else in the line may change what they do: the caller's variables, `cd`, or input.
    """
    line = operation.line
    moves = any(word.text in _MOVES for command in script.commands for word in command.words)
    if script.problems or operation.environment or moves or "<<" in line:
        return []
    matches = [[at for at, each in enumerate(script.commands) if _contains(each, command)] for command in commands]
    positions = sorted({at for match in matches for at in match})
    is_piped = "|" in line.replace("||", "")
    if not all(matches) or (is_piped and positions != [0]):
        return []
    return [script.commands[at] for at in positions]


def _contains(command: SimpleCommand, other: SimpleCommand) -> bool:
    """Return whether `command` is or runs `other`."""
    size = len(other.words)
    starts = range(len(command.words) - size + 1)
    return size > 0 and any(command.words[at : at + size] == other.words for at in starts)
