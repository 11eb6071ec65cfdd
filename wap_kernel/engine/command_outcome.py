"""Turn the outcome of a command into a result or an error, and back from what a layer stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from wap_kernel.engine.permit import Permit
from wap_kernel.model.command import Command, CommandOutcome
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, ExecutionFailed, NoSpace, TimedOut
from wap_kernel.model.hints import LONGEST_TIMEOUT, longer_timeout
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import CommandResult, Limits, RefusedPath
from wap_kernel.model.text import escape_one_line
from wap_kernel.policy.effects.judge import RefusedChange

NOT_FOUND = 127
NO_EFFECT_HINT = "Nothing that it changed was applied."
CROSS_DEVICE = "Invalid cross-device link"
"""The C library's text for EXDEV."""
CANNOT_RENAME = (
    "a folder that was there before the command cannot be renamed on this layer: make the new folder and move the files"
)
MAX_NAMED = 200
"""Refused changes and conflicts that a result names."""


def build_command(operation: RunCommand, permit: Permit) -> Command:
    """Return the command of an operation, within the limits."""
    limits = permit.limits
    requested = operation.timeout_ms or limits.default_timeout_ms
    is_cut = requested > limits.max_timeout_ms and operation.timeout_ms is not None and not operation.is_timeout_default
    return Command(
        command=operation.argv,
        cwd=operation.cwd,
        by_alias=operation.by_alias,
        environment=operation.environment,
        env_allowlist=permit.env_allowlist,
        timeout=min(requested, limits.max_timeout_ms) / 1000,
        requested_timeout=requested / 1000 if is_cut else None,
        output_limit=limits.max_output_size,
        on_start=permit.on_start,
    )


Suggest = Callable[[str], "str | None"]
"""A function that returns the program whose name is nearest to one that does not exist."""


def add_notes(
    outcome: CommandOutcome,
    command: Command,
    refused: Sequence[RefusedChange],
    conflicts: Sequence[str],
    suggest: Suggest,
    *,
    renames_folders: bool = True,
) -> CommandOutcome:
    """Return the outcome with one line in stderr for each thing that the caller cannot know otherwise.

    These are refused changes, conflicts, a mistyped program, a shortened timeout, and a folder that cannot be renamed
    on the layer.
    """
    notes = []
    if command.requested_timeout is not None:
        limit = f"{command.timeout:g} seconds, the longest that policy allows"
        notes.append(f"wap: the timeout of {command.requested_timeout:g} seconds was shortened to {limit}")
    if refused:
        notes.append(f"wap: not applied: {_name_paths([change.path for change in refused])} (see refusedChanges)")
    if conflicts:
        notes.append(f"wap: not applied, since they were changed meanwhile: {_name_paths(conflicts)} (see conflicts)")
    if outcome.exit_code == NOT_FOUND and (meant := _find_meant(outcome.stderr, suggest)) is not None:
        notes.append(f"wap: did you mean {meant}?")
    if not renames_folders and CROSS_DEVICE in outcome.stderr:
        notes.append(f"wap: {CANNOT_RENAME}")
    if not notes:
        return outcome
    separator = "" if not outcome.stderr or outcome.stderr.endswith("\n") else "\n"
    return replace(outcome, stderr=outcome.stderr + separator + "\n".join((*notes, "")))


def _find_meant(stderr: str, suggest: Suggest) -> str | None:
    """Return the program that bash's `command not found`, or `not found` of another shell, may have meant."""
    for line in stderr.splitlines()[-3:]:
        head = line.removesuffix(": not found").removesuffix(": command not found")
        if head != line:
            return suggest(head.rpartition(": ")[2].strip())
    return None


def _name_paths(paths: Sequence[str]) -> str:
    named = ", ".join(escape_one_line(render_path(path)) for path in paths[:5])
    return f"{named} and {len(paths) - 5} more" if len(paths) > 5 else named


def build_result(
    outcome: CommandOutcome,
    command: Command,
    suggest: Suggest,
    refused: Sequence[RefusedChange] = (),
    conflicts: Sequence[str] = (),
    *,
    is_shared: bool = False,
    renames_folders: bool = True,
) -> CommandResult:
    """Return the result of a command that ended by itself.

    `renames_folders` is False where the command ran on a layer on which the kernel renames no folder that existed.
    """
    outcome = add_notes(outcome, command, refused, conflicts, suggest, renames_folders=renames_folders)
    return CommandResult(
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        exit_code=outcome.exit_code,
        duration_ms=round(outcome.duration * 1000),
        stdout_bytes=outcome.stdout_bytes,
        stderr_bytes=outcome.stderr_bytes,
        is_output_truncated=outcome.stdout_truncated or outcome.stderr_truncated,
        refused_changes=describe_refused(refused) or None,
        conflicts=[render_path(path) for path in conflicts[:MAX_NAMED]] or None,
        isolation="shared" if is_shared else None,
    )


def describe_refused(refused: Sequence[RefusedChange]) -> list[RefusedPath]:
    """Return the refused changes as results name them."""
    return [
        RefusedPath(path=render_path(change.path), rule=change.rule, reason=change.reason)
        for change in refused[:MAX_NAMED]
    ]


def raise_unless_ended(
    outcome: CommandOutcome, result: CommandResult, command: Command, limits: Limits, *, applied: bool
) -> None:
    """Raise the error of a command that did not end by itself; `applied` tells what became of its changes."""
    details = result.model_dump(by_alias=True, exclude={"exit_code", "run_id"}, exclude_none=True)
    hint = PARTIAL_EFFECT_HINT if applied else NO_EFFECT_HINT
    if outcome.overflowed:
        raise NoSpace("The command wrote more than the disk may hold, and was ended.", hint=hint, **details)
    if outcome.cancelled:
        raise ExecutionFailed("The command was ended before it was done.", hint=hint, **details)
    if outcome.timed_out:
        timeout_ms = command.timeout * 1000
        is_longest = timeout_ms >= limits.max_timeout_ms
        raise TimedOut(
            f"The command was ended after {command.timeout:g} second{'' if command.timeout == 1 else 's'}.",
            hint=LONGEST_TIMEOUT if is_longest else longer_timeout(limits.max_timeout_ms / 1000),
            timeoutMs=timeout_ms,
            changesApplied=applied,
            **details,
        )
