"""The policy model: everything the specifications name, in one place. Pure data; `decision.py` reads it.

A policy is one *layer*: an administrator's file, a preset, a workspace's `.cws-policy.json`, an agent token's scope.
The defaults restrict nothing, so a layer says only what it wants to say, and of several layers the strictest wins.

The fields of `.cws-policy.json` (`allowedPaths`, `allowedCommands`, ...) stand in the sections; `reading.py` reads both
forms.
"""

from __future__ import annotations

import shlex
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class VerdictKind(str, Enum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self]


_STRICTNESS = {VerdictKind.ALLOW: 0, VerdictKind.ASK: 1, VerdictKind.DENY: 2}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


def _named(command: str) -> str:
    if not command.split():
        raise ValueError("it names no program")
    return command


CommandWords = Annotated[str, AfterValidator(_named)]
"""A program, or a program with its first words."""


class FilesystemPolicy(_Section):
    access: Literal["none", "read", "read-write"] = "read-write"
    max_file_size: int | None = Field(None, gt=0)
    """Bytes that a file may have to be read or written at all."""
    max_edit_size: int | None = Field(None, gt=0)
    """Bytes that one write or edit may bring."""
    allowed_paths: tuple[str, ...] | None = None
    """*Selected* globs: nothing else can be reached. None: everything."""
    denied_paths: tuple[str, ...] = ()
    """*Excluded* globs, as gitignore reads them: can be neither read nor written, are not listed and not searched."""
    read_only_paths: tuple[str, ...] = ()
    """*Excluded* globs: can be read."""


class CommandRule(_Section):
    """What happens to commands of one form. Of the rules that fit, the strictest counts."""

    command: CommandWords
    """The program and its first words: `git status`, `pip install`, `find`. Options before a word are skipped only
    where the program's grammar is known (see `policy/commands.py`)."""
    verdict: VerdictKind
    having: tuple[str, ...] = ()
    """The rule fits only a command with one of these options (`-r` is also found in `-rf`, `--pre` in `--pre=x`)."""
    without: tuple[str, ...] = ()
    """The rule does not fit a command that has one of these options."""
    targets: tuple[str, ...] = ()
    """The rule fits only a command that names one of these paths: `/`, `~` (with what is equal to them)."""
    leaving: bool = False
    """The rule fits only a command that may name a path outside the workspace."""
    alone: bool = False
    """The rule fits only when nothing follows the words: `git branch` lists, `git branch x` makes one."""
    runs_code: bool = False
    """It runs code of the workspace (python, make, pytest): asks where nothing confines it."""
    writes: bool = False
    """It writes the files that it is told: asks where nothing confines it, since it may be told any."""
    network: bool = False
    """It gets the network once it is allowed."""
    destructive: bool = False
    """It destroys what is there; who is asked is told so first."""
    grantable: bool = True
    """Whether a person may allow it for good."""
    reason: str | None = None


class ShellPolicy(_Section):
    enabled: bool = True
    allowed_commands: tuple[CommandWords, ...] | None = None
    """Anything else is denied. None: no such list."""
    blocked_commands: tuple[CommandWords, ...] = ()
    """Denied: `sudo`."""
    rules: tuple[CommandRule, ...] = ()
    unknown: VerdictKind = VerdictKind.ALLOW
    """For a program that no rule fits."""
    unanalysable: VerdictKind = VerdictKind.ALLOW
    """For a command line that cannot be read for certain: substitution, eval, `sh -c`, a leading assignment ..."""
    unconfined: VerdictKind = VerdictKind.ALLOW
    """What the verdict on code (`runsCode`), on the unknown and on the unanalysable is at least where nothing confines
    the command."""
    max_timeout_ms: int | None = Field(None, gt=0)
    env_allowlist: tuple[str, ...] | None = None
    """The only variables that a command gets, from the server or from the caller. None: the usual ones."""


class NetworkPolicy(_Section):
    access: Literal["none", "full"] = "full"
    """For commands. A rule with `network` grants it to a single command in spite of `none`."""


class Policy(_Section):
    """One layer."""

    name: str = "policy"
    """Where it comes from, for people: `standard`, `.cws-policy.json`, `/etc/jupyter/wap-policy.json`."""
    filesystem: FilesystemPolicy = FilesystemPolicy()
    shell: ShellPolicy = ShellPolicy()
    network: NetworkPolicy = NetworkPolicy()
    confirmation_required: tuple[str, ...] = ()
    """Tools (and the older `task.run`) that ask."""
    of_workspace: bool = Field(False, exclude=True)
    """It is a `.cws-policy.json`, which is asked for confirmation in the words of the caller's own client."""
    broken: str | None = None
    """Why the layer could not be read; everything is then denied with this text."""


Layers = tuple[Policy, ...]
"""The policy in force. The order is that of precedence in texts; the strictest verdict wins."""


class CommandForm(BaseModel):
    """The commands that a grant allows: `rm a.txt` word for word, or `pip install` with any packages, in one folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[str, ...]
    """All words; with `options`, the program, its subcommand and the operands that must be the same."""
    options: tuple[str, ...] | None = None
    """The options that must be the same; None means that every word must be the same."""
    redirects: tuple[str, ...] = ()
    cwd: str
    """The folder that the command runs in, with its links resolved."""

    @property
    def text(self) -> str:
        parts = [shlex.join((*self.words, *(self.options or ())))]
        parts += ["..."] if self.options is not None else []
        parts += self.redirects
        if self.cwd != ".":
            parts.append(f"(in {self.cwd})")
        return " ".join(parts)


class Grant(BaseModel):
    """What a person allowed "always, here"; serialises to JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["command", "path"]
    operation: str
    """The kind of the operation: `writeFile`, `runCommand`."""
    paths: tuple[str, ...] = ()
    """The paths, with their links resolved."""
    flags: tuple[str, ...] = ()
    """The flags by which the operation does more to the same paths."""
    commands: tuple[CommandForm, ...] = ()

    @property
    def text(self) -> str:
        """Return what is allowed, in words for people."""
        if self.kind == "command":
            return ", ".join(form.text for form in self.commands)
        flags = f" ({', '.join(self.flags)})" if self.flags else ""
        return f"{self.operation} {', '.join(self.paths)}{flags}"
