"""Ask about text that may run a restricted command because it names one. Pure.

Many words are no programs, so a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wap_kernel.model.policy import ShellPolicy, VerdictKind
from wap_kernel.policy.commands.mentions import (
    CommandPattern,
    Mentions,
    find_in_long_text,
    list_restricted_commands,
)
from wap_kernel.policy.shell.parser import Script
from wap_kernel.policy.verdict import Verdict

MAX_VARIABLE_CHARACTERS = 16 * 1024
"""Characters of the caller's variables that are searched for names."""


def search_line(verdict: Verdict, script: Script, shell: ShellPolicy, *, whole: bool, layered: bool) -> Verdict:
    """Return the verdict on a line that cannot be analysed: one that names a restricted command asks.

    A line of which a part was not parsed asks whatever it names, unless a Layer confines it: then its words count.
    """
    wanted = list_restricted_commands(shell)
    if not wanted:
        return verdict
    if not is_short(script.variable_values) or not (whole or layered):
        return replace(verdict, kind=VerdictKind.ASK, previewable=False)
    if whole:
        found = Mentions([script.text], script.variable_values, parts=True).first(wanted)
    else:
        found = find_in_long_text("\n".join((script.text, *script.variable_values)), wanted)
    return ask_if_named(verdict, "The line", found)


def ask_if_named(verdict: Verdict, what: str, found: CommandPattern | None) -> Verdict:
    """Return a verdict that asks where text names a blocked program, or a command that a rule asks about."""
    if found is None:
        return verdict
    reason = f'{what} names "{found}", which {"is blocked" if found.blocked else "needs approval"}, and may run it'
    previewable = not (found.blocked or found.network)
    return replace(verdict, kind=VerdictKind.ASK, reason=reason, grantable=False, previewable=previewable)


def is_short(variable_values: Sequence[str]) -> bool:
    return sum(map(len, variable_values)) <= MAX_VARIABLE_CHARACTERS
