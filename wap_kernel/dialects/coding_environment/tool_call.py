"""One call of a tool, from its arguments to its answer: who may, what it means, who must agree first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from wap_kernel.dialects import batch_authorization
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.batch_authorization import SCOPE, Authorize
from wap_kernel.dialects.coding_environment import confirmation_prompt, outcome, workspace_root
from wap_kernel.dialects.coding_environment import progress as watching
from wap_kernel.dialects.coding_environment.confirmation_prompt import Question
from wap_kernel.dialects.coding_environment.extra_parameters import GetRunParameters, RunOperationsParameters
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.parameters import Placed
from wap_kernel.dialects.coding_environment.progress import Progress
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, placed, rpc_error
from wap_kernel.dialects.coding_environment.tools import DIALECT, TOOLS, CodingTool
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import (
    ApprovalRequired,
    Conflict,
    NotFound,
    PermissionDenied,
    RateLimited,
    WapError,
    translate_os_error,
)
from wap_kernel.model.operations import Effect, GitTransfer, Operation, RunCommand
from wap_kernel.model.results import Result
from wap_kernel.model.run import Step
from wap_kernel.policy.verdict import VerdictKind
from wap_kernel.providers.process.stream import Chunk
from wap_kernel.runs.runner import Runner
from wap_kernel.runs.services import Admission

Confirm = Callable[[Question], Awaitable[bool]]
"""Asks the user of the client."""
T = TypeVar("T")


async def call(
    name: str,
    arguments: Mapping[str, Any] | None,
    runner: Runner,
    caller: Caller,
    *,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
    wait: float = 0.0,
    authorize: Authorize | None = None,
    admit: Admission | None = None,
) -> CallOutcome:
    """Do what a client asks for. What a person in Jupyter must agree to is waited for `wait` seconds.

    Errors of the catalog's tools are raised as RpcError, those of the others are outcomes. Cancelling the task ends
    what was begun.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise rpc_error(name, NotFound(f"There is no tool named {name!r}.", hint=f"Tools: {', '.join(TOOLS)}."))
    ongoing = _Call(tool, runner, caller, confirm, progress, wait, authorize, admit)
    try:
        return await ongoing.answer(arguments or {})
    except RpcError:
        raise
    except WapError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - a bug: it is logged, and what it says stays here
        failure = runner.workspace.bug(error, name)
    if tool.in_catalog:
        raise rpc_error(name, failure)
    return outcome.failed(tool, failure)


def respond(step: Step, result: Result) -> dict[str, Any]:
    """The answer of a call that waited for approval, to be kept."""
    return outcome.performed(TOOLS[step.tool], step.operation, result).structured or {}


def refuse(step: Step, error: WapError) -> dict[str, Any]:
    """The same of one that failed: a JSON-RPC error for the catalog's tools."""
    return outcome.refused(TOOLS[step.tool], placed(error, step.operation))


@dataclass(frozen=True)
class _Call:
    tool: CodingTool[Any]
    runner: Runner
    caller: Caller
    confirm: Confirm | None
    progress: Progress | None
    wait: float
    authorize: Authorize | None
    admit: Admission | None

    async def answer(self, arguments: Mapping[str, Any]) -> CallOutcome:
        try:
            await self._check_scope()
            sent = await self._parse(arguments)
            operation = await self._operation(sent) if isinstance(sent, Placed) else None
            if operation is not None and operation.effect is not self.tool.least_effect:
                await self._authorized(operation.effect)
        except WapError as error:
            self._refused(error)
            raise
        if operation is not None:
            return await self._single(operation)
        if isinstance(sent, RunOperationsParameters):
            return await self._batch(sent)
        assert isinstance(sent, GetRunParameters)
        return await self._look(sent)

    # -- before

    async def _check_scope(self) -> None:
        """Before the arguments are read: who may not use a tool need not learn what it thinks of them."""
        scope = self.caller.scope
        if scope is not None and not self.tool.is_opened_by(scope.tools):
            opened = sorted(scope.tools or ())
            raise PermissionDenied(
                f"This agent token does not open {self.tool.name}.",
                hint=f"It opens: {', '.join(opened)}.",
                rule=SCOPE,
                allowedTools=opened,
            )
        if self.tool.parameters is not RunOperationsParameters:
            await self._authorized(self.tool.least_effect)

    async def _authorized(self, effect: Effect) -> None:
        if self.authorize is not None:
            await self.authorize(effect)

    async def _parse(self, arguments: Mapping[str, Any]) -> BaseModel:
        def parse() -> BaseModel:
            # By way of JSON: it knows what text is, and the rules for it are there.
            sent: BaseModel = self.tool.parse(json.dumps(arguments).encode("ascii"))
            return sent

        # What changes something brings contents, which may be large.
        return parse() if self.tool.effect is Effect.READ else await self.runner.workspace.offload(parse)

    async def _operation(self, sent: Placed) -> Operation:
        workspace = self.runner.workspace
        within = workspace_root.named(sent.workspace_root, workspace.names_of_root)
        if within != ".":
            within = await workspace.offload(partial(self._real, within))
        return sent.engine(workspace_root.at(within, workspace.names_of_root))

    def _real(self, folder: str) -> str:
        """What the engine finds has real paths, and they are told relative to this."""
        try:
            return self.runner.workspace.judge.files_of(self.caller).resolve(folder)
        except OSError as error:
            raise translate_os_error(error, folder) from None

    def _refused(self, error: WapError) -> None:
        self.runner.workspace.refused(self.tool.name, error, self.caller)

    # -- a single operation

    async def _single(self, operation: Operation) -> CallOutcome:
        try:
            async with nullcontext() if self.admit is None else self.admit(self.caller, operation):
                return await self._agreed(operation)
        except RateLimited as error:
            self._refused(error)
            raise
        except WapError as error:
            raise placed(error, operation) from None

    async def _agreed(self, operation: Operation) -> CallOutcome:
        try:
            return await self._perform(operation)
        except ApprovalRequired as error:
            refusal = error
        confirmed = operation.model_copy(update={"confirmed": True})
        if not await self._is_enough(confirmed, refusal):
            return await self._decided(operation, refusal)
        if self.confirm is not None:
            await self._ask(self.confirm, operation, refusal)
            return await self._perform_confirmed(confirmed)
        if self.tool.confirmed_by is None:
            return await self._decided(operation, refusal)
        raise ApprovalRequired(
            f"{refusal.details['reason']}.",
            hint=f"Show the user what you want to do; when they agree, call again with {self.tool.confirmed_by}: true.",
            rule=confirmation_prompt.RULE,
        )

    async def _perform(self, operation: Operation) -> CallOutcome:
        workspace, context = self.runner.workspace, CallContext(dialect=DIALECT, tool=self.tool.name)
        encode = partial(outcome.performed, self.tool, operation)
        if self.progress is not None and isinstance(operation, GitTransfer):
            async with watching.telling(self.progress, "Git is at work."):
                return await workspace.answer(operation, self.caller, encode, context)
        if self.progress is None or not isinstance(operation, RunCommand):
            return await workspace.answer(operation, self.caller, encode, context)
        async with (
            watching.telling(self.progress, "The command runs and has written nothing yet.") as tail,
            aclosing(workspace.stream(operation, self.caller, context)) as stream,
        ):
            async for item in stream:
                if isinstance(item, Chunk):
                    tail.add_bytes(item.stream, item.data)
                else:
                    result = item
        return await workspace.offload(lambda: encode(result))

    async def _perform_confirmed(self, operation: Operation) -> CallOutcome:
        try:
            return await self._perform(operation)
        except ApprovalRequired as refusal:  # since a moment ago
            return await self._decided(operation, refusal)

    async def _is_enough(self, confirmed: Operation, refusal: ApprovalRequired) -> bool:
        """Whether the word of the client's user settles it. Else it is for a person in Jupyter."""
        if refusal.details.get("rule") != confirmation_prompt.RULE:
            return False
        (verdict,) = await self.runner.workspace.check([confirmed], self.caller)
        return verdict.kind is VerdictKind.ALLOW

    async def _ask(self, confirm: Confirm, operation: Operation, refusal: ApprovalRequired) -> None:
        workspace = self.runner.workspace
        look = partial(confirmation_prompt.question, self.tool.name, operation, refusal, workspace, self.caller)
        question = await workspace.offload(look)
        if not await confirm(question):
            raise ApprovalRequired(
                "The user did not agree.",
                hint="Do not try it in another way; ask them what to do instead.",
                rule=confirmation_prompt.RULE,
                declined=True,
            )
        if await workspace.offload(look) != question:
            raise Conflict("What was shown to the user has changed since.", hint="Call again, to have it shown anew.")

    async def _decided(self, operation: Operation, refusal: ApprovalRequired) -> CallOutcome:
        """By a person in Jupyter, which may take longer than is waited."""
        step = Step(self.tool.name, self.tool.name, operation)
        asking = asyncio.ensure_future(self.runner.ask(step, self.caller, refusal, dialect=DIALECT))
        try:
            return outcome.kept(self.tool, await asyncio.shield(asking))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._take_back(asking)))
            raise
        except ApprovalRequired as error:
            waiting = error
        run_id = str(waiting.details["runId"])
        answer = await self._for(run_id, self.wait, self.runner.response(run_id, self.wait))
        if answer is not None:
            return outcome.kept(self.tool, answer)
        waiting.hint = (
            f"A person decides in Jupyter, and then it is done. See what became of it with getRun {run_id};"
            " until they have decided, the same call is answered with the same run."
        )
        raise waiting

    # -- runs

    async def _batch(self, sent: RunOperationsParameters) -> CallOutcome:
        try:
            steps = await self.runner.workspace.offload(sent.steps)
            refused = await batch_authorization.refusals(steps, self.caller, self.authorize)
        except PermissionDenied as error:
            self._refused(error)
            raise
        run = await self.runner.start(steps, sent.options(), self.caller, dialect=agent_spaces.DIALECT, refused=refused)
        await self._for(run.id, sent.wait, self.runner.wait(run.id, sent.wait))
        return await self._report(run.id)

    async def _look(self, sent: GetRunParameters) -> CallOutcome:
        run = await self.runner.get(sent.run_id, self.caller)
        if sent.wait and not run.status.is_final:
            async with watching.telling(self.progress, watching.WAITS) as tail:
                await watching.until_over(self.runner, run.id, self.caller, tail, sent.wait)
        return await self._report(run.id)

    async def _for(self, run_id: str, seconds: float, waiting: Awaitable[T]) -> T:
        """What is awaited; the run ends with whoever waits for it, if nobody else does."""
        try:
            async with watching.following(self.runner, run_id, self.caller, self.progress if seconds else None):
                return await waiting
        except asyncio.CancelledError:
            # A task of its own: whoever was cancelled may not be let wait.
            ending = asyncio.ensure_future(self._withdraw(run_id))
            await asyncio.shield(ending)
            raise

    async def _take_back(self, asking: Awaitable[object]) -> None:
        """A question that is being put."""
        try:
            await asking
        except ApprovalRequired as error:
            await self._withdraw(str(error.details["runId"]))
        except WapError:
            pass  # it was not put

    async def _withdraw(self, run_id: str) -> None:
        with suppress(WapError):
            await self.runner.withdraw(run_id, self.caller)

    async def _report(self, run_id: str) -> CallOutcome:
        run = await self.runner.get(run_id, self.caller)
        message = await self.runner.encoded(run, self.caller)
        read = self.tool.response.model_validate_json
        return await self.runner.workspace.offload(lambda: outcome.answered(read(message)))
