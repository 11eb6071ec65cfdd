"""What the sender of a batch may not do in it, operation by operation: by the authorizer, and by its token's scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import PermissionDenied, WapError
from wap_kernel.model.operations import Effect, Message
from wap_kernel.model.run import Step
from wap_kernel.model.tool_names import is_opened

Authorize = Callable[[Effect], Awaitable[None]]
"""Raises PermissionDenied unless the caller may do such a thing at all."""

SCOPE = "token.tools"
"""The rule by which an agent token does not open a tool."""


async def refusals(steps: Sequence[Step], caller: Caller, authorize: Authorize | None) -> Mapping[str, WapError]:
    """By the operation's id; the others go on. Raises PermissionDenied when the authorizer allows nothing at all."""
    by_effect = {} if authorize is None else await _unauthorized(steps, authorize)
    refused: dict[str, WapError] = {
        step.id: by_effect[step.operation.effect] for step in steps if step.operation.effect in by_effect
    }
    return {**refused, **_out_of_scope(steps, caller)}


async def _unauthorized(steps: Sequence[Step], authorize: Authorize) -> dict[Effect, PermissionDenied]:
    """A batch that does nothing is read."""
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


def _out_of_scope(steps: Sequence[Step], caller: Caller) -> dict[str, WapError]:
    tools = None if caller.scope is None else caller.scope.tools
    if tools is None:
        return {}
    hint = f"It opens: {', '.join(sorted(tools))}."
    return {
        step.id: PermissionDenied(f"This agent token does not open {step.tool}.", hint=hint, rule=SCOPE)
        for step in steps
        if not isinstance(step.operation, Message) and not is_opened(step.tool, tools)
    }
