"""Run commands on layers: the command proposes, policy judges the effect, the engine applies it.

    command -> Layer -> ChangeSet -> judge -> [approval] -> apply

Nothing reaches the workspace before policy has judged the effect. A command whose effect needs an approval keeps its
layer, with its outcome, until a person has decided. A batch that is atomic or simulated has one layer for all of its
commands, and applies it at its end, or discards it. Runs on the workspace's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from secrets import token_hex
from typing import Any, TypeVar

from wap_kernel.engine.command_outcome import Suggest, build_command, build_result, describe_refused, raise_unless_ended
from wap_kernel.engine.effects.approval import (
    AWAITS_APPROVAL,
    NO_OUTPUT,
    OUTCOME,
    OWNER,
    RETAINED_REASONS,
    EffectApprovals,
    OpenLayer,
    name_note,
    require_loss,
)
from wap_kernel.engine.mask_prediction import MaskPrediction
from wap_kernel.engine.permit import WALK_SECONDS, Permit
from wap_kernel.engine.watch.disk_watch import measure_folder, watch_disk
from wap_kernel.model.caller import CallContext
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, Deadline, OnChunk, no_check
from wap_kernel.model.errors import ApprovalRequired, Conflict, NotFound, WapError
from wap_kernel.model.git.operations import GitAction, GitRead, GitTransfer
from wap_kernel.model.limits import LAYER_RETENTION_SECONDS, MAX_RETAINED_BYTES, MAX_RETAINED_LAYERS
from wap_kernel.model.operations import ApplyChanges, RunCommand
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import AppliedChanges, CommandResult, RefusedPath, Result
from wap_kernel.policy.effects.judge import EffectJudgement
from wap_kernel.providers.base import Provider
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.state.changes.applier import ApplyResult, ChangeApplier
from wap_kernel.state.changes.image_store import make_not_storable

SCANS = 3
"""Walks in search of what a command may not see, before it is given up."""
T = TypeVar("T")
JudgeEffect = Callable[[ChangeSet, Layer], EffectJudgement]
UNSTORED_SECONDS = 60.0
"""Seconds for which a layer waits until the run that it belongs to is stored."""


class LayeredCommands:
    """The commands of one workspace that run on layers."""

    def __init__(self, provider: Provider, layers: LayerStore, applier: ChangeApplier, suggest: Suggest) -> None:
        self._provider = provider
        self._applier = applier
        self._approvals = EffectApprovals(layers, applier)
        self._suggest = suggest
        self._masks = MaskPrediction()
        self.layers = layers

    # -- commands

    def run(
        self,
        operation: RunCommand,
        permit: Permit,
        cancel: CancelToken,
        on_chunk: OnChunk | None,
        context: CallContext,
    ) -> CommandResult:
        """Run a command on a layer and apply its effect, or raise UnapprovedEffect.

        Where a person has approved the effect of a command that has run already, only its effect is applied.
        """
        command = build_command(operation, permit)
        with self._open_layer(permit) as opened:
            outcome = self._load_outcome(opened, permit, context)
            if outcome is None:
                outcome = self._run_command(command, opened.layer, permit, cancel, on_chunk)
            changes = opened.layer.read_changes()
            judgement = permit.judge_effect(changes, opened.layer)
            if not (outcome.cancelled or outcome.overflowed):
                self._approvals.require_command(opened, outcome, changes, judgement, permit, context)
            return self._finish(command, opened, outcome, changes, judgement, permit, context)

    def _load_outcome(self, opened: OpenLayer, permit: Permit, context: CallContext) -> CommandOutcome | None:
        """Return the outcome of the command if it has run already and its effect waited for an approval."""
        if permit.pending is None:
            return None
        stored = opened.layer.read_note(name_note(OUTCOME, context))
        if stored is None:
            raise NotFound("The outcome of the command is gone.", hint="Run the command again.")
        return CommandOutcome(**stored)

    def _run_command(
        self, command: Command, layer: Layer, permit: Permit, cancel: CancelToken, on_chunk: OnChunk | None
    ) -> CommandOutcome:
        attempt, is_predicted = 1, self._provider.checks_while_starting
        while True:
            deadline = Deadline(WALK_SECONDS, lambda: cancel.requested)
            predicted = self._masks.predict(permit, layer, deadline) if is_predicted else None
            masks = self._masks.find(permit, layer, deadline) if predicted is None else predicted.masks
            check = no_check if predicted is None else predicted.check
            confined = replace(command, confinement=replace(masks, layer=layer), check=check)
            try:
                with watch_disk(layer.upper, cancel) as watch:
                    outcome = self._provider.run(confined, on_chunk=on_chunk, cancel=watch.cancel)
                return replace(outcome, cancelled=False, overflowed=True) if watch.has_overflowed else outcome
            except WapError as error:
                is_outdated = predicted is not None and not predicted.are_right  # nothing has run
                # Another Conflict: a path to hide was moved between the walk and the start. Nothing has run either.
                if not is_outdated and (attempt == SCANS or not isinstance(error, Conflict)):
                    raise
                attempt, is_predicted = attempt if is_outdated else attempt + 1, False

    def _finish(
        self,
        command: Command,
        opened: OpenLayer,
        outcome: CommandOutcome,
        changes: ChangeSet,
        judgement: EffectJudgement,
        permit: Permit,
        context: CallContext,
    ) -> CommandResult:
        """Apply the effect of a command that has ended, and return its result or raise its error."""
        is_ended = not (outcome.cancelled or outcome.overflowed)
        conflicts: Sequence[str] = ()
        if outcome.cancelled:
            opened.keep(context, "cancelled")
        elif is_ended and permit.layer is None:
            conflicts = self._apply_command(opened, changes, judgement, context)
        result = build_result(
            outcome,
            command,
            self._suggest,
            judgement.named if is_ended else (),
            conflicts,
            renames_folders=opened.layer.renames_folders,
        )
        raise_unless_ended(outcome, result, command, permit.limits, applied=is_ended)
        return result

    def _apply_command(
        self, opened: OpenLayer, changes: ChangeSet, judgement: EffectJudgement, context: CallContext
    ) -> Sequence[str]:
        """Apply the effect of a single command, and return the conflicts; the layer then keeps the command's files."""
        try:
            conflicts = self.apply(opened.layer, changes, judgement, context, is_approved=True).conflicts
        except WapError:
            opened.keep(context, "failed")
            raise
        if conflicts:
            opened.keep(context, "conflict")
        return conflicts

    def apply_batch(self, layer: Layer, judge_effect: JudgeEffect, permit: Permit, context: CallContext) -> ApplyResult:
        """Apply the changes of a whole batch, all or none, or raise UnapprovedEffect.

        The approvals of its commands hold, but what came after them, and file operations, are judged only here.
        """
        changes = layer.read_changes()
        judgement = judge_effect(changes, layer)
        opened = OpenLayer(layer, is_batch=True)
        self._approvals.require_command(opened, NO_OUTPUT, changes, judgement, permit, context)
        return self.apply(layer, changes, judgement, context, atomic=True, is_approved=True)

    def approve_batch(self, layer: Layer, judge_effect: JudgeEffect, rule: str) -> None:
        """Note that a person has approved what a batch changed so far, as far as this rule asks about it."""
        changes = layer.read_changes()
        causes = [cause for cause in judge_effect(changes, layer).causes if cause.rule == rule]
        if causes:
            self._approvals.approve(layer, changes, causes)

    # -- git

    def act(
        self,
        operation: GitAction,
        permit: Permit,
        cancel: CancelToken,
        context: CallContext,
        act: Callable[[Confinement], Result],
    ) -> Result:
        """Perform a git action, whose commands all run on one layer, and apply its effect whole or not at all.

        An action whose effect a person has approved is performed anew, and has to have the effect that was shown.
        """
        with self._open_layer(replace(permit, pending=None)) as opened:
            layer = opened.layer
            layer.hold()  # git takes several commands for one action
            deadline = Deadline(WALK_SECONDS, lambda: cancel.requested)
            confinement = replace(permit.confine(layer.files, deadline).confinement, layer=layer)
            result = act(confinement)
            if isinstance(operation, GitRead) or permit.layer is not None:
                return result
            changes = layer.read_changes()
            judgement = permit.judge_effect(changes, layer)
            if judgement.ask is not None and not isinstance(operation, GitTransfer):
                self._approvals.require_action(opened, changes, judgement, permit, context)
            # The approval of a transfer shows the transfer, not what is lost with it.
            is_approved = not isinstance(operation, GitTransfer)
            applied = self.apply(layer, changes, judgement, context, atomic=True, is_approved=is_approved)
            if applied.unkept:
                raise make_not_storable(applied.unkept)
            if applied.conflicts:
                raise Conflict(
                    f"Changed while git was at work: {', '.join(map(render_path, applied.conflicts[:10]))}.",
                    hint="Nothing was applied. Try again.",
                    paths=[render_path(path) for path in applied.conflicts],
                )
            return result

    def inspect(self, permit: Permit, inspect: Callable[[Confinement], T]) -> T:
        """Call `inspect`, whose commands change nothing that counts, on a layer that is discarded."""
        with self._open_layer(permit) as opened:
            opened.layer.hold()
            masks = permit.confine(opened.layer.files, Deadline(WALK_SECONDS))
            return inspect(replace(masks.confinement, layer=opened.layer))

    # -- layers

    def find_layers(self, run: str, reasons: Collection[str]) -> list[Layer]:
        """Return the layers that a run keeps for one of these reasons, oldest first; the caller closes them."""
        found: list[Layer] = []
        for listed in self._list_layers(run, reasons):
            with suppress(NotFound):
                found.append(self.layers.load(listed.id))
        return found

    def has_changes(self, run: str) -> bool:
        """Return whether a run has left changes in a layer that `apply_retained` applies."""
        return any(True for _ in self._list_layers(run, RETAINED_REASONS))

    def _list_layers(self, run: str, reasons: Collection[str]) -> Iterator[Layer]:
        for layer in self.layers.list():
            owner = layer.read_note(OWNER) or {}
            if owner.get("run") == run and owner.get("reason") in reasons:
                yield layer

    def assign(self, identifier: str, run: str) -> None:
        """Make a layer that waits for an approval belong to another run: that of the call that waits."""
        layer = self.layers.load(identifier)
        layer.write_note(OWNER, {**(layer.read_note(OWNER) or {}), "run": run})
        layer.close()

    def sweep(self, is_needed: Callable[[Mapping[str, Any]], bool]) -> None:
        """Remove the layers of dead processes, and those that are too old or no longer needed by their run."""
        self.layers.remove_leftovers()

        def is_wanted(layer: Layer) -> bool:
            owner = layer.read_note(OWNER) or {}
            reason = owner.get("reason")
            if reason in RETAINED_REASONS:
                return layer.age_seconds < LAYER_RETENTION_SECONDS
            # The run of a single call is stored after its layer.
            is_new = reason == AWAITS_APPROVAL and layer.age_seconds < UNSTORED_SECONDS
            return reason is not None and (is_new or is_needed(owner))

        for layer in self.layers.list():
            if not is_wanted(layer) and layer.lock():
                if is_wanted(layer):  # it was in use until now
                    layer.close()
                else:
                    layer.discard()

    def apply_retained(self, operation: ApplyChanges, permit: Permit, context: CallContext) -> AppliedChanges:
        """Apply what a run left in its layers, over what is in the workspace now; its before-images are kept."""
        layers = self.find_layers(operation.run, RETAINED_REASONS)
        if not layers:
            raise NotFound(
                "The run has no changes that wait to be applied.",
                hint="The server keeps such changes for a day at most.",
            )
        applied: list[str] = []
        refused: list[RefusedPath] = []
        chosen = [(layer, _select(layer.read_changes(), operation.paths)) for layer in layers]
        judged = [(layer, changes, permit.judge_effect(changes, layer)) for layer, changes in chosen]
        if not permit.is_approved:
            try:
                require_loss(judgement for _, _, judgement in judged)
            except ApprovalRequired:
                for layer in layers:
                    layer.close()
                raise
        for layer, changes, judgement in judged:
            named = [change.path for change in changes]
            result = self.apply(layer, changes, judgement, context, overwrite=named, is_approved=permit.is_approved)
            applied += [render_path(change.path) for change in result.applied]
            refused += describe_refused(judgement.named)
            if len(layer.read_changes()):
                layer.close()
            else:
                layer.discard()
        if not applied and not refused:
            raise NotFound("None of these paths waits to be applied.", hint="The run's event names its conflicts.")
        return AppliedChanges(applied=applied, refused_changes=refused or None)

    def apply(
        self,
        layer: Layer,
        changes: ChangeSet,
        judgement: EffectJudgement,
        context: CallContext,
        *,
        atomic: bool = False,
        overwrite: Sequence[str] = (),
        is_approved: bool = False,
    ) -> ApplyResult:
        """Apply the changes of a layer that policy does not refuse, as changes of the context's run.

        With `is_approved`, a person has approved the judgement wherever it asks.
        """
        if not len(judgement.select_applied(changes)):
            return ApplyResult()
        context.recorder.begin()
        return self._applier.apply(
            layer.upper,
            changes,
            run=context.run or new_call_id(),
            position=context.position,
            began_ns=layer.began_ns,
            atomic=atomic,
            refused=judgement.refused_paths,
            rewritten=judgement.rewritten,
            overwrite=overwrite,
            allows_loss=judgement.allows_loss or is_approved,
        )

    @contextmanager
    def _open_layer(self, permit: Permit) -> Iterator[OpenLayer]:
        """Yield the layer of the batch, the one that waited for an approval, or a new one."""
        if permit.layer is not None:
            yield OpenLayer(permit.layer, is_batch=True)
            return
        opened = OpenLayer(self.layers.create() if permit.pending is None else self.layers.load(permit.pending))
        try:
            yield opened
        finally:
            if opened.is_retained:
                opened.layer.close()
                self.bound_retained()
            else:
                opened.layer.discard()

    def bound_retained(self) -> None:
        """Remove the oldest of the layers that were not applied, beyond the limits for all of them together."""
        size = count = 0
        for layer in reversed(self.layers.list()):
            owner = layer.read_note(OWNER) or {}
            if owner.get("reason") not in RETAINED_REASONS:
                continue
            size += owner["bytes"] if "bytes" in owner else measure_folder(layer.upper)
            count += 1
            if count > 1 and (size > MAX_RETAINED_BYTES or count > MAX_RETAINED_LAYERS):
                self.layers.remove(layer.id)


def new_call_id() -> str:
    """Return the id under which the changes of a call without a run are recorded."""
    return f"call_{token_hex(8)}"


def _select(changes: ChangeSet, paths: Collection[str] | None) -> ChangeSet:
    """Return the changes at these paths and below; all of them without paths."""
    if paths is None:
        return changes
    folders = tuple(f"{path}/" for path in paths)
    return ChangeSet(tuple(change for change in changes if change.path in paths or change.path.startswith(folders)))
