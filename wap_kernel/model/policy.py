"""Policy layers, command rules and grants. Pure data; `policy/decide.py` evaluates it.

A policy is one *layer*: an administrator's file, a preset, a workspace's `.cws-policy.json`, an agent token's scope.
The defaults restrict nothing, so a layer states only its own restrictions, and of several layers the strictest wins.

The fields of `.cws-policy.json` (`allowedPaths`, `allowedCommands`, ...) belong to the sections; the policy parser
accepts both forms.
"""

from __future__ import annotations

import shlex
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class VerdictKind(str, Enum):
    """The three verdicts on an operation."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self]


_STRICTNESS = {VerdictKind.ALLOW: 0, VerdictKind.ASK: 1, VerdictKind.DENY: 2}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


def _require_program(command: str) -> str:
    if not command.split():
        raise ValueError("the command names no program")
    return command


CommandWords = Annotated[str, AfterValidator(_require_program)]
"""A program, or a program with its first words."""


class FilesystemPolicy(_Section):
    """Restrictions on paths and on the sizes of files."""

    access: Literal["none", "read", "read-write"] = "read-write"
    max_file_size: int | None = Field(None, gt=0)
    """Bytes of the largest file that can be read or written."""
    max_edit_size: int | None = Field(None, gt=0)
    """Bytes of new content in one write or edit."""
    allowed_paths: tuple[str, ...] | None = None
    """Include globs of the only paths that can be reached. None: all paths."""
    denied_paths: tuple[str, ...] = ()
    """Exclude globs (gitignore) of paths that can be neither read, written, listed nor searched."""
    read_only_paths: tuple[str, ...] = ()
    """Exclude globs (gitignore) of paths that can be read and not written."""


class CommandRule(_Section):
    """The verdict on commands of one form. Of the rules that match, the strictest counts."""

    command: CommandWords
    """The program and its first words: `git status`, `pip install`, `find`.

    Options before a word are skipped only where the program's grammar is known.
    """
    verdict: VerdictKind
    having: tuple[str, ...] = ()
    """The rule matches only a command with one of these options (`-rf` has `-r`, `--pre=x` has `--pre`)."""
    without: tuple[str, ...] = ()
    """The rule does not match a command that has one of these options."""
    targets: tuple[str, ...] = ()
    """The rule matches only a command that names one of these paths: `/`, `~` (or a path equal to them)."""
    leaving: bool = False
    """The rule matches only a command that may name a path outside the workspace."""
    alone: bool = False
    """The rule matches only when nothing follows the words: `git branch` lists, `git branch x` creates one."""
    runs_code: bool = False
    """The command runs code of the workspace (python, make, pytest), so it asks where no provider confines it."""
    writes: bool = False
    """The command writes files that its arguments name, so it asks where no provider confines it."""
    network: bool = False
    """The command gets the network once it is allowed."""
    destructive: bool = False
    """The command destroys data; the approval says so first."""
    unless_layered: bool = False
    """The rule counts only where no Layer confines the command; on a Layer policy judges the effect instead."""
    grantable: bool = True
    """True if a person may allow the command for good."""
    reason: str | None = None


class ShellPolicy(_Section):
    """Restrictions on commands."""

    enabled: bool = True
    allowed_commands: tuple[CommandWords, ...] | None = None
    """The only commands that are not denied. None: no such list."""
    blocked_commands: tuple[CommandWords, ...] = ()
    """Commands that are denied: `sudo`."""
    rules: tuple[CommandRule, ...] = ()
    unknown: VerdictKind = VerdictKind.ALLOW
    """The verdict on a program that no rule matches."""
    unanalysable: VerdictKind = VerdictKind.ALLOW
    """The verdict on a command line that cannot be analysed: substitution, eval, `sh -c`, a leading assignment ..."""
    unconfined: VerdictKind = VerdictKind.ALLOW
    """The least strict verdict on code (`runsCode`), unknown and unanalysable commands that no provider confines."""
    unless_layered: bool = False
    """True if `ask` in `unknown` and `unanalysable` counts only where no Layer confines the command."""
    shared: VerdictKind = VerdictKind.ALLOW
    """The verdict on a command of an agent that asks to write into the workspace directly (`isolation`)."""
    preview: bool = True
    """True if a command that asks by its words, and needs no network, runs on its Layer before a person decides."""
    max_timeout_ms: int | None = Field(None, gt=0)
    env_allowlist: tuple[str, ...] | None = None
    """The only variables that a command gets, from the server or from the caller. None: the usual ones."""


class NetworkPolicy(_Section):
    """Restrictions on the network of commands."""

    access: Literal["none", "full"] = "full"
    """The network of commands. A rule with `network` gives it to a single command in spite of `none`."""


class EffectsPolicy(_Section):
    """The changes that need an approval before they reach the workspace."""

    obeyed_files: tuple[str, ...] = ()
    """Exclude globs (gitignore) of files that other programs obey on this machine. To change one asks."""
    max_deletions: int | None = Field(None, ge=0)
    """Deletions of files that were there before; more of them ask."""
    max_changes: int | None = Field(None, ge=0)
    """Changed files; more of them ask."""
    max_bytes: int | None = Field(None, ge=0)
    """Bytes of all files that are created or changed; more of them ask."""
    unkept: VerdictKind = VerdictKind.ALLOW
    """The verdict on a change whose earlier content cannot be kept for undo."""


class Policy(_Section):
    """One layer of policy."""

    name: str = "policy"
    """The source of the layer, for people: `standard`, `.cws-policy.json`, `/etc/jupyter/wap-policy.json`."""
    filesystem: FilesystemPolicy = FilesystemPolicy()
    shell: ShellPolicy = ShellPolicy()
    network: NetworkPolicy = NetworkPolicy()
    effects: EffectsPolicy = EffectsPolicy()
    confirmation_required: tuple[str, ...] = ()
    """Tools (and the older `task.run`) that need a confirmation."""
    is_workspace_policy: bool = Field(False, exclude=True)
    """True if the layer is a `.cws-policy.json`, whose confirmations the caller's own client may give."""
    broken: str | None = None
    """The reason why the layer could not be read; it denies every operation with this text."""


Layers = tuple[Policy, ...]
"""The layers of the policy in force. The strictest verdict wins; among equal ones the first layer is quoted."""


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
    """The commands or paths that a person allowed "always, here"; serialises to JSON."""

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
        """Return the allowed commands or paths, in words for people."""
        if self.kind == "command":
            return ", ".join(form.text for form in self.commands)
        flags = f" ({', '.join(self.flags)})" if self.flags else ""
        return f"{self.operation} {', '.join(self.paths)}{flags}"
