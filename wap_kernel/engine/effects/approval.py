"""Ask a person about the effect of a command that has run on its layer, and check that a yes holds for that effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from wap_kernel.engine.effects.preview import EffectPreview, describe_effect
from wap_kernel.engine.permit import Permit
from wap_kernel.engine.watch.disk_watch import measure_folder
from wap_kernel.model.caller import CallContext
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import CommandOutcome
from wap_kernel.model.errors import ApprovalRequired, NotFound, TooLarge
from wap_kernel.model.limits import MAX_RETAINED_BYTES
from wap_kernel.policy.effects.approval_causes import UNKEPT_RULE
from wap_kernel.policy.effects.judge import EffectJudgement
from wap_kernel.policy.effects.judgement import ApprovalCause
from wap_kernel.policy.verdict import Verdict
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.state.changes.applier import ChangeApplier
from wap_kernel.state.changes.effect_digest import digest_contents

RETAINED_REASONS = ("conflict", "cancelled", "failed")
"""The reasons for which a layer is kept that `apply_retained` applies."""
AWAITS_APPROVAL = "approval"
OUTCOME = "outcome"
OWNER = "owner"
APPROVED = "approved"
PREVIEW = "preview"
"""The notes of a layer: the outcome of its command, the run that it belongs to, the approved causes, and the digest of
the effect that an approval shows."""
NO_OUTPUT = CommandOutcome("", "", 0, 0, False, False, 0, 0.0)
"""The outcome of a git action whose effect is shown."""


class UnapprovedEffect(ApprovalRequired):
    """A refusal that carries the effect that a person has to approve; its layer waits for the decision."""

    preview: EffectPreview


@dataclass
class OpenLayer:
    """The layer of one command. A layer of its own is discarded afterwards, unless there is a reason to keep it."""

    layer: Layer
    is_batch: bool = False
    """True if the layer belongs to a batch, which keeps it or not."""
    is_retained: bool = False

    def keep(self, context: CallContext, reason: str) -> None:
        if self.is_batch or context.run is None:
            return
        self.is_retained = True
        if reason in RETAINED_REASONS:
            context.recorder.begin()  # the run that a person applies
        owner = {"run": context.run, "position": context.position, "step": context.step, "reason": reason}
        self.layer.write_note(OWNER, {**owner, "bytes": measure_folder(self.layer.upper)})


class EffectApprovals:
    """The approvals of effects in one workspace."""

    def __init__(self, layers: LayerStore, applier: ChangeApplier) -> None:
        self._layers = layers
        self._applier = applier

    def require_command(
        self,
        opened: OpenLayer,
        outcome: CommandOutcome,
        changes: ChangeSet,
        judgement: EffectJudgement,
        permit: Permit,
        context: CallContext,
    ) -> None:
        """Raise UnapprovedEffect where the words of the command or its effect need an approval; keep the layer.

        A person's yes holds for the effect that was shown: where the workspace under it has changed, this asks again.
        In a batch it holds for later steps and the end too, as long as they leave what it is about as it was.
        """
        verdict, layer = permit.asks_for or judgement.ask, opened.layer
        before = layer.read_note(name_note(PREVIEW, context)) if permit.pending is not None else None
        if context.dry_run or (verdict is None and before is None):
            return
        preview = {**(before or {}), **_describe_verdict(verdict)}
        preview["digest"] = self._digest(layer, changes)
        if before is not None and before["digest"] == preview["digest"]:
            self.approve(layer, changes, judgement.causes)
            return
        if permit.asks_for is None and before is None and self._is_approved(layer, changes, judgement):
            return
        if permit.pending is None:
            self._require_room(layer)
        layer.write_note(name_note(OUTCOME, context), vars(outcome))
        layer.write_note(name_note(PREVIEW, context), preview)
        opened.keep(context, AWAITS_APPROVAL)
        raise _make_refusal(
            preview, describe_effect(layer, layer.lower.guarded_by(permit.guard), outcome, changes, judgement)
        )

    def require_action(
        self, opened: OpenLayer, changes: ChangeSet, judgement: EffectJudgement, permit: Permit, context: CallContext
    ) -> None:
        """Raise UnapprovedEffect unless a person has approved this effect of a git action; keep the layer.

        An approved action is performed anew, on another layer than the one that was shown.
        """
        layer, note = opened.layer, name_note(PREVIEW, context)
        preview = _describe_verdict(judgement.ask)
        preview["digest"] = digest_contents(
            layer.upper, (each for each in changes if each.path in judgement.approval_paths)
        )
        if permit.pending is not None:
            with suppress(NotFound):
                previewed = self._layers.load(permit.pending)
                is_same = previewed.read_note(note) == preview
                previewed.discard()
                if is_same:
                    return
        layer.release()
        self._require_room(layer)
        layer.write_note(note, preview)
        opened.keep(context, AWAITS_APPROVAL)
        raise _make_refusal(
            preview, describe_effect(layer, layer.lower.guarded_by(permit.guard), NO_OUTPUT, changes, judgement)
        )

    def approve(self, layer: Layer, changes: ChangeSet, causes: Iterable[ApprovalCause]) -> None:
        """Note in the layer of a batch that a person has approved these causes as they are now."""
        approved = layer.read_note(APPROVED) or []
        layer.write_note(APPROVED, [*approved, *(self._identify(layer, changes, cause) for cause in causes)])

    def _is_approved(self, layer: Layer, changes: ChangeSet, judgement: EffectJudgement) -> bool:
        approved = layer.read_note(APPROVED) or []
        return all(self._identify(layer, changes, cause) in approved for cause in judgement.causes)

    def _identify(self, layer: Layer, changes: ChangeSet, cause: ApprovalCause) -> list[str]:
        """Return what tells a cause from another one, and from the same one with other changes."""
        return [cause.rule, cause.reason, self._digest(layer, changes, cause.paths)]

    def _require_room(self, layer: Layer) -> None:
        """Raise TooLarge where this layer and those that wait already would fill the disk."""
        owners = (each.read_note(OWNER) or {} for each in self._layers.list())
        waiting = sum(owner.get("bytes", 0) for owner in owners if owner.get("reason") == AWAITS_APPROVAL)
        if waiting and waiting + measure_folder(layer.upper) > MAX_RETAINED_BYTES:
            raise TooLarge(
                f"The changes of commands that wait for a person take more than {MAX_RETAINED_BYTES} bytes.",
                hint="Have a person decide on them first, or cancel them.",
            )

    def _digest(self, layer: Layer, changes: ChangeSet, paths: Collection[str] | None = None) -> str:
        """Return a digest of the changes, or of those at `paths`."""
        return self._applier.digest(layer.upper, (each for each in changes if paths is None or each.path in paths))


def name_note(kind: str, context: CallContext) -> str:
    """Return the name of the note of a step; a batch has one layer for all of its steps."""
    return f"{kind}-{context.position}"


def require_loss(judgements: Iterable[EffectJudgement]) -> None:
    """Raise ApprovalRequired where one of these effects destroys what undo cannot bring back."""
    for judgement in judgements:
        for cause in judgement.causes:
            if cause.rule == UNKEPT_RULE:
                reason = f"To apply the run {cause.reason}"
                hint = "Apply the other paths, or approve the loss."
                raise ApprovalRequired(
                    f"{reason}: a person must agree first.", hint=hint, rule=cause.rule, reason=reason
                )


def _describe_verdict(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {}
    return {"rule": verdict.rule, "reason": verdict.reason, "suggestion": verdict.suggestion}


def _make_refusal(preview: Mapping[str, Any], effect: EffectPreview) -> UnapprovedEffect:
    refusal = UnapprovedEffect(
        f"{preview['reason']}: a person must agree first.",
        hint=preview["suggestion"] or "It has run on a layer, and a person sees what it would change.",
        rule=preview["rule"],
        reason=preview["reason"],
    )
    refusal.preview = effect
    return refusal
