"""Describe the effect of a command for the person who decides: output, exit code, changed paths with diffs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.files.edit import unified_diff
from wap_kernel.files.interface import Files
from wap_kernel.files.read import read_up_to
from wap_kernel.model.changes import Change, ChangeKind, ChangeSet
from wap_kernel.model.command import CommandOutcome, Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.paths import render_path
from wap_kernel.policy.effects.judge import EffectJudgement
from wap_kernel.providers.layers.change_reader import read_upper_file
from wap_kernel.providers.layers.layer import Layer

MAX_CHANGES = 200
"""Changed paths that an approval names; it counts the others."""
MAX_DIFFED_BYTES = 256 * 1024
MAX_DIFFS_CHARACTERS = 200_000
MAX_OUTPUT_CHARACTERS = 20_000
DIFF_SECONDS = 2.0


@dataclass(frozen=True)
class EffectPreview:
    """The effect of a command that has run on a layer."""

    layer: str
    """The id of the layer."""
    effect: Mapping[str, Any]
    """The field `effect` of the approval."""
    paths: tuple[str, ...]
    """The changed paths whose diffs are shown."""


def describe_effect(
    layer: Layer, files: Files, outcome: CommandOutcome, changes: ChangeSet, judgement: EffectJudgement
) -> EffectPreview:
    """Return what the command did on its layer; `files` are the caller's view of the workspace."""
    applied = [change for change in judgement.select_applied(changes) if change.kind is not ChangeKind.TOUCHED]
    diffs = _Diffs(layer, files)
    entries = [{**describe_change(change), **diffs.compare(change)} for change in applied[:MAX_CHANGES]]
    counts = {kind.value: sum(change.kind is kind for change in applied) for kind in ChangeKind}
    effect: dict[str, Any] = {
        "exitCode": outcome.exit_code,
        "stdout": _shorten(outcome.stdout),
        "stderr": _shorten(outcome.stderr),
        "timedOut": outcome.timed_out or None,
        "changes": entries,
        "counts": {kind: count for kind, count in counts.items() if count},
        "more": len(applied) - len(entries) or None,
        "refusedChanges": [
            {"path": render_path(change.path), "rule": change.rule, "reason": change.reason}
            for change in judgement.named[:MAX_CHANGES]
        ]
        or None,
    }
    described = {name: value for name, value in effect.items() if value is not None}
    return EffectPreview(layer.id, described, tuple(change.path for change in applied[:MAX_CHANGES]))


def describe_change(change: Change) -> dict[str, Any]:
    """Return a change as one entry of a list for people."""
    kind = change.before.kind if change.kind is ChangeKind.DELETED else change.after.kind
    entry: dict[str, Any] = {"path": render_path(change.path), "change": change.kind.value}
    if kind != "file":
        entry["kind"] = kind
    if change.source is not None:
        entry["source"] = render_path(change.source)
    return entry


class _Diffs:
    def __init__(self, layer: Layer, files: Files) -> None:
        self._layer = layer
        self._files = files
        self._room = MAX_DIFFS_CHARACTERS
        self._deadline = Deadline(DIFF_SECONDS)

    def compare(self, change: Change) -> dict[str, Any]:
        """Return the diff of a changed text file, empty where there is none to show."""
        if "file" not in (change.before.kind, change.after.kind) or change.kind is ChangeKind.MODE:
            return {}
        if max(change.before.size or 0, change.after.size or 0) > MAX_DIFFED_BYTES:
            return {"note": f"{change.before.size or 0} bytes before, {change.after.size or 0} bytes after"}
        if self._room <= 0 or not self._deadline.remaining:
            return {"isDiffTruncated": True}
        try:
            old = self._read_old(change)
        except (OSError, WapError):
            return {}  # closed to the caller, so closed to the approval too
        new = read_upper_file(self._layer.upper, change.path, MAX_DIFFED_BYTES) if change.after.kind == "file" else b""
        if new is None:
            return {}
        if b"\0" in old or b"\0" in new:
            return {"note": f"Binary: {len(old)} bytes before, {len(new)} bytes after."}
        diff, is_truncated = unified_diff.render_diff(render_path(change.path), old, new)
        self._room -= len(diff)
        return {"diff": diff, **({"isDiffTruncated": True} if is_truncated else {})}

    def _read_old(self, change: Change) -> bytes:
        if change.before.kind != "file":
            return b""
        with self._files.open(change.path) as file:
            return read_up_to(file, MAX_DIFFED_BYTES)


def _shorten(text: str) -> str:
    if len(text) <= MAX_OUTPUT_CHARACTERS:
        return text
    half = MAX_OUTPUT_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
