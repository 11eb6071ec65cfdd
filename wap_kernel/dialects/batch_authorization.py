"""Find the operations of a batch that its sender may not perform, by the authorizer or by the scope of its token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import PermissionDenied, WapError
from wap_kernel.model.operations import Effect, Message
from wap_kernel.model.run import Step
from wap_kernel.model.tool_names import is_opened

Authorize = Callable[[Effect], Awaitable[None]]
"""Raises PermissionDenied unless the caller may perform operations with this effect at all."""

SCOPE_RULE = "token.tools"
"""Name of the rule by which an agent token does not open a tool."""


async def find_refusals(steps: Sequence[Step], caller: Caller, authorize: Authorize | None) -> Mapping[str, WapError]:
    """Return the errors of the refused operations by their ids; the other operations go on.

    Raise PermissionDenied when the authorizer allows none of the batch's effects.
    """
    by_effect = {} if authorize is None else await _refuse_by_authorizer(steps, authorize)
    refused: dict[str, WapError] = {
        step.id: by_effect[step.operation.effect] for step in steps if step.operation.effect in by_effect
    }
    return {**refused, **_refuse_by_scope(steps, caller)}


async def _refuse_by_authorizer(steps: Sequence[Step], authorize: Authorize) -> dict[Effect, PermissionDenied]:
    # An empty batch counts as a read.
    effects = dict.fromkeys(step.operation.effect for step in steps) or {Effect.READ: None}
    refused: dict[Effect, PermissionDenied] = {}
    for effect in effects:
        try:
            await authorize(effect)
        except PermissionDenied as error:
            refused[effect] = error
    if len(refused) == len(effects):
        raise next(iter(refused.values()))
    return refused


def _refuse_by_scope(steps: Sequence[Step], caller: Caller) -> dict[str, WapError]:
    tools = None if caller.scope is None else caller.scope.tools
    if tools is None:
        return {}
    hint = f"The token opens: {', '.join(sorted(tools))}."
    return {
        step.id: PermissionDenied(f"This agent token does not open {step.tool}.", hint=hint, rule=SCOPE_RULE)
        for step in steps
        if not isinstance(step.operation, Message) and not is_opened(step.tool, tools)
    }
