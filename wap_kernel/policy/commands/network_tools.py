"""Decide which commands get the network that a rule opens, and which of these a person may allow for good. Pure.

The network is for the tool that was meant. A program in a folder that an agent can write is not that tool, and `python
-m pip` imports a `pip.py` of the workspace before the installed one; the provider sets PYTHONSAFEPATH against that,
which Python obeys since 3.11. Some tools run what files of the workspace say: the scripts of npm, a build backend. A
person may approve that once, and not for whatever these files say later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace

from wap_kernel.model.policy import CommandRule
from wap_kernel.policy.commands.redirections import HARMLESS
from wap_kernel.policy.commands.rule_match import (
    CommandFacts,
    Program,
    Words,
    match_option,
    may_leave,
    skip_leading_options,
)
from wap_kernel.policy.grants import has_tolerance
from wap_kernel.policy.shell.syntax import SimpleCommand, Word
from wap_kernel.policy.verdict import Verdict

_PYTHON = re.compile(r"(python|pypy)[0-9.]*\Z")
_SAFE_PYTHON = re.compile(r"python3\.(1[1-9]|[2-9][0-9])\Z")
"""Interpreters that obey PYTHONSAFEPATH, by the name of the file that a name leads to."""
_INSTALLERS = frozenset("pip pip3 conda mamba".split())
"""Tools that install packages of an index, or whatever a path or a file of requirements names."""
_OBEDIENT = frozenset("npm npx yarn pnpm bun uv uvx poetry pdm hatch tox nox make cargo bundle composer".split())
"""Tools that run programs which files of the workspace name."""
_GIT_PROGRAMS = ("--upload-pack", "--receive-pack", "--exec")
_CLONE_PROGRAMS = (*_GIT_PROGRAMS, "-u", "-c", "--config", "--template")
"""Options of git, and of `git clone`, that name a program, or a setting that does."""
_EMPTY_MAKERS = frozenset("mkdir rmdir touch".split())
"""Programs that write no content."""

_UNTRUSTED = "It gets no network: the program lies where an agent can write. Use the installed one: pip --prefix .venv."
_SHADOWED = "It gets no network: this Python may import a module of the workspace instead. Use pip itself."
_NAMES_PROGRAM = "It gets no network: an option names a program to run."


def limit_network(verdict: Verdict, program: Program, words: Words, facts: CommandFacts) -> Verdict:
    """Return `verdict` without the network where another program than the tool that is meant may run.

    It is not grantable where the tool runs what the workspace says.
    """
    if not verdict.network:
        return verdict
    name = words[0].literal or "/"
    if program.name is None and ("/" in name or not facts.is_missing(name)):
        return replace(verdict, network=False, suggestion=_UNTRUSTED)
    if program.name is not None and _runs_module(program, words):
        real = os.path.basename(facts.resolve(words[0].text) or "")
        if not _SAFE_PYTHON.match(real):
            return replace(verdict, network=False, grantable=False, suggestion=_SHADOWED)
        return replace(verdict, grantable=False)
    if program.name == "git" and _names_program(words):
        return replace(verdict, network=False, grantable=False, suggestion=_NAMES_PROGRAM)
    if program.name is None:
        return verdict  # a program that does not exist: it can only fail
    literals = [word.literal or "" for word in words]
    if program.name in _OBEDIENT or (program.name in _INSTALLERS and not has_tolerance(literals)):
        return replace(verdict, grantable=False)
    return verdict


def _names_program(words: Words) -> bool:
    rest, _ = skip_leading_options("git", words[1:])
    options = _CLONE_PROGRAMS if rest and rest[0].text == "clone" else _GIT_PROGRAMS
    return any(match_option(option, rest[1:], certain=False) for option in options)


def _runs_module(program: Program, words: Words) -> bool:
    """Return whether an interpreter may run a module by its name: `-m pip`, `-mpip`, `-um pip`."""
    if not any(_PYTHON.match(name) for name in program.names):
        return False
    for word in words[1:]:
        if word.literal is None or (word.text.startswith("-") and not word.text.startswith("--") and "m" in word.text):
            return True
        if not word.text.startswith("-"):
            return False
    return False


def writes_outside(command: SimpleCommand, facts: CommandFacts) -> bool:
    """Return whether a redirection may write out of the workspace, where another tool looks for its settings."""
    return any(may_leave(target, facts) for target in _list_written(command))


def writes_content(command: SimpleCommand, rules: Iterable[CommandRule], others: Iterable[bool]) -> bool:
    """Return whether the command, which `rules` allow, may write settings for a tool of the same line: `~/.npmrc`.

    No path is exempt, since a path of the workspace may be a link to home. But `tee` may write the output of the tools:
    `others` says of every other command whether it has the network itself.
    """
    if _list_written(command):
        return True
    name = command.words[0].text.rpartition("/")[2] if command.words else ""
    if name in _EMPTY_MAKERS or (name == "tee" and not command.redirects and all(others)):
        return False
    return any(rule.writes for rule in rules)


def _list_written(command: SimpleCommand) -> list[Word]:
    redirects = (each for each in command.redirects if each.mode != "read")
    return [redirect.target for redirect in redirects if redirect.target.text not in HARMLESS]
