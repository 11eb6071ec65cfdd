"""runOperations: an Agent Spaces batch as a run, with what its sender may not do refused operation by operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from wap_kernel.caller import Caller
from wap_kernel.dialects import agent_spaces
from wap_kernel.dialects.agent_spaces import OperationsMessage
from wap_kernel.dialects.coding_environment.rpc_errors import SCOPE
from wap_kernel.errors import PermissionDenied, WapError
from wap_kernel.operations import Effect, Message
from wap_kernel.runner import Runner
from wap_kernel.runs.model import Run, Step

# An agent token may name a tool as any dialect does.
_ALSO = {"createFile": ("writeFile",), "editFile": ("modifyFile",), "shell": ("executeCommand", "runCommand")}


async def begin(
    runner: Runner,
    caller: Caller,
    message: OperationsMessage,
    authorize: Callable[[Effect], Awaitable[None]] | None,
) -> Run:
    steps = await runner.workspace.offload(message.steps)
    refused = {**await _unauthorized(steps, authorize), **_out_of_scope(steps, caller)}
    return await runner.start(steps, message.options(), caller, dialect=agent_spaces.DIALECT, refused=refused)


async def _unauthorized(
    steps: Sequence[Step], authorize: Callable[[Effect], Awaitable[None]] | None
) -> Mapping[str, WapError]:
    """By operation; raises when nothing at all is allowed. A batch that does nothing is read."""
    effects = dict.fromkeys(step.operation.effect for step in steps) or {Effect.READ: None}
    refused: dict[Effect, WapError] = {}
    for effect in effects:
        try:
            if authorize is not None:
                await authorize(effect)
        except PermissionDenied as error:
            refused[effect] = error
    if len(refused) == len(effects):
        raise next(iter(refused.values()))
    return {step.id: refused[step.operation.effect] for step in steps if step.operation.effect in refused}


def _out_of_scope(steps: Sequence[Step], caller: Caller) -> Mapping[str, WapError]:
    scope = caller.scope
    if scope is None or scope.tools is None:
        return {}
    hint = f"It opens: {', '.join(sorted(scope.tools))}."
    return {
        step.id: PermissionDenied(f"This agent token does not open {step.tool}.", hint=hint, rule=SCOPE)
        for step in steps
        if not isinstance(step.operation, Message) and scope.tools.isdisjoint({step.tool, *_ALSO.get(step.tool, ())})
    }
