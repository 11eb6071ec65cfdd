"""Grants: what a person allowed "always, here". As narrow as one path and kind of operation, or one form of command.

A grant turns ask into allow, never deny, and never for a rule that is not grantable; `decision.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from wap_kernel.commands.words import SimpleCommand
from wap_kernel.operations import Operation, RunCommand
from wap_kernel.policy.touches import touches

SUBCOMMANDS = frozenset("git pip pip3 npm yarn pnpm conda mamba uv cargo docker poetry jupyter dvc".split())
"""Programs of which the first word says what they do. A grant for another program is for the very same words."""


class CommandForm(BaseModel):
    """`git push` with whatever it is about, or `rm -r build` word for word in the same folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[str, ...]
    """The program and its subcommand; all words when `options` is None."""
    options: tuple[str, ...] | None = None
    cwd: str | None = None

    @classmethod
    def of(cls, command: SimpleCommand, cwd: str) -> CommandForm | None:
        """None when a word is a glob or a variable: what it stands for tomorrow was not agreed to."""
        words = [literal for word in command.words if (literal := word.literal) is not None]
        if not words or len(words) < len(command.words) or command.redirects:
            return None
        options = [word for word in words if word.startswith("-")]
        # `--exec x`: the next word may be its value, and another value is another command.
        takes_value = any(word.startswith("--") and "=" not in word for word in options)
        if words[0] in SUBCOMMANDS and len(words) > 1 and words[1] not in options and not takes_value:
            return cls(words=tuple(words[:2]), options=tuple(sorted(set(options))))
        return cls(words=tuple(words), cwd=cwd)


class Grant(BaseModel):
    """Serialises to JSON, for the state folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["command", "path"]
    operation: str
    """The kind of operation: `writeFile`, `runCommand`."""
    paths: tuple[str, ...] = ()
    commands: tuple[CommandForm, ...] = ()

    @classmethod
    def of(cls, operation: Operation, commands: Sequence[SimpleCommand] = ()) -> Grant | None:
        """The narrowest grant for `operation`, of which `commands` need one. None: it cannot be granted."""
        if not isinstance(operation, RunCommand):
            return cls(kind="path", operation=operation.kind, paths=tuple(touch.path for touch in touches(operation)))
        forms = [form for command in commands if (form := CommandForm.of(command, operation.cwd)) is not None]
        # The caller's variables change what a command does.
        if not forms or len(forms) < len(commands) or operation.environment:
            return None
        return cls(kind="command", operation=operation.kind, commands=tuple(dict.fromkeys(forms)))

    def covers(self, operation: Operation, commands: Sequence[SimpleCommand] = ()) -> bool:
        return covered([self], operation, commands)

    @property
    def text(self) -> str:
        """What is allowed, for people."""
        if self.kind == "path":
            return f"{self.operation} {', '.join(self.paths)}".strip()
        return ", ".join(" ".join((*form.words, *(form.options or ()))) for form in self.commands)


def covered(grants: Iterable[Grant], operation: Operation, commands: Sequence[SimpleCommand] = ()) -> bool:
    """Whether the grants together allow what is asked about."""
    needed = Grant.of(operation, commands)
    if needed is None:
        return False
    if needed.kind == "path":
        return needed in grants
    return {form for grant in grants for form in grant.commands}.issuperset(needed.commands)
