"""Call one tool: authorize the caller, parse the arguments, get a confirmation or approval, encode the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from wap_kernel.dialects import batch_authorization
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.batch_authorization import SCOPE_RULE, Authorize
from wap_kernel.dialects.coding_environment import confirmation_prompt, outcome, run_wait, workspace_root
from wap_kernel.dialects.coding_environment import progress as call_progress
from wap_kernel.dialects.coding_environment.answers import OutputAnswer, RunReport
from wap_kernel.dialects.coding_environment.confirmation_prompt import ConfirmationPrompt
from wap_kernel.dialects.coding_environment.extra_parameters import (
    CancelRunParameters,
    GetOutputParameters,
    GetRunParameters,
    RunOperationsParameters,
)
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.parameters import RootedParameters
from wap_kernel.dialects.coding_environment.progress import Progress
from wap_kernel.dialects.coding_environment.rpc_errors import relocate_error, to_rpc_error
from wap_kernel.dialects.coding_environment.tools import DIALECT, TOOLS, CodingTool
from wap_kernel.dialects.tool import LARGE_BODY_BYTES
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
from wap_kernel.model.git.operations import GitTransfer
from wap_kernel.model.limits import DEFAULT_OUTPUT_PAGE_BYTES
from wap_kernel.model.operations import Effect, Operation, RunCommand
from wap_kernel.model.results import Result
from wap_kernel.model.run import Run, Step
from wap_kernel.policy.verdict import VerdictKind
from wap_kernel.providers.process.stream import Chunk
from wap_kernel.runs.runner import Runner
from wap_kernel.runs.services import Admission

Confirm = Callable[[ConfirmationPrompt], Awaitable[bool]]
"""Ask the user of the client to confirm; return whether they did."""
T = TypeVar("T")


async def call_tool(
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
    """Call the tool `name`; wait at most `wait` seconds for the approval of a person in Jupyter.

    An error is an outcome, too, but for an unknown tool, which raises RpcError. Cancelling the task ends the operation
    and withdraws its approval.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise to_rpc_error(name, NotFound(f"There is no tool named {name!r}.", hint=f"Tools: {', '.join(TOOLS)}."))
    tool_call = _ToolCall(tool, runner, caller, confirm, progress, wait, authorize, admit)
    try:
        return await tool_call.perform(arguments or {})
    except WapError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - a bug: the server logs it and hides its text
        failure = runner.workspace.bug(error, name)
    return outcome.encode_failure(to_rpc_error(name, failure))


def encode_result(step: Step, result: Result) -> dict[str, Any]:
    """Encode the result of a call that waited for approval, for the run store."""
    return outcome.encode_result(TOOLS[step.tool], step.operation, result).structured


def encode_error(step: Step, error: WapError) -> dict[str, Any]:
    """Encode the error of a call that waited for approval, for the run store."""
    return outcome.encode_stored_error(TOOLS[step.tool], relocate_error(error, step.operation))


@dataclass(frozen=True)
class _ToolCall:
    tool: CodingTool[Any]
    runner: Runner
    caller: Caller
    confirm: Confirm | None
    progress: Progress | None
    wait: float
    authorize: Authorize | None
    admit: Admission | None

    async def perform(self, arguments: Mapping[str, Any]) -> CallOutcome:
        try:
            await self._check_scope()
            parameters = await self._parse(arguments)
            operation = await self._build_operation(parameters) if isinstance(parameters, RootedParameters) else None
            if operation is not None and operation.effect is not self.tool.least_effect:
                await self._authorize(operation.effect)
        except WapError as error:
            self._record_refusal(error)
            raise
        if operation is not None:
            return await self._perform_single(operation)
        match parameters:
            case RunOperationsParameters():
                return await self._run_batch(parameters)
            case CancelRunParameters():
                return await self._report((await self.runner.cancel(parameters.run_id, self.caller)).id)
            case GetOutputParameters():
                return await self._get_output(parameters)
            case _:
                assert isinstance(parameters, GetRunParameters)
                return await self._get_run(parameters)

    # -- before the operation

    async def _check_scope(self) -> None:
        """Check the scope before the arguments are parsed: a caller it refuses learns nothing about them."""
        scope = self.caller.scope
        if scope is not None and not self.tool.is_opened_by(scope.tools):
            opened = sorted(scope.tools or ())
            raise PermissionDenied(
                f"This agent token does not open {self.tool.name}.",
                hint=f"It opens: {', '.join(opened)}.",
                rule=SCOPE_RULE,
                allowedTools=opened,
            )
        if self.tool.parameters is not RunOperationsParameters:
            await self._authorize(self.tool.least_effect)

    async def _authorize(self, effect: Effect) -> None:
        if self.authorize is not None:
            await self.authorize(effect)

    async def _parse(self, arguments: Mapping[str, Any]) -> BaseModel:
        def parse() -> BaseModel:
            # As JSON: strict parsing of JSON accepts what a client can send, and checks that text is Unicode.
            parsed: BaseModel = self.tool.parse(json.dumps(arguments).encode("ascii"))
            return parsed

        # Contents may be large, and a caller may send anything in their place.
        is_small = self.tool.effect is Effect.READ and _count_characters(arguments) <= LARGE_BODY_BYTES
        return parse() if is_small else await self.runner.workspace.offload(parse)

    async def _build_operation(self, parameters: RootedParameters) -> Operation:
        workspace = self.runner.workspace
        within = workspace_root.parse_root(parameters.workspace_root, workspace.names_of_root)
        if within != ".":
            within = await workspace.offload(partial(self._resolve_folder, within))
        return parameters.build_operation(workspace_root.build_root_folder(within, workspace.names_of_root))

    def _resolve_folder(self, folder: str) -> str:
        """Resolve the links of a folder: results of the engine have real paths, which answers make relative to it."""
        try:
            return self.runner.workspace.judge.files_of(self.caller).resolve(folder)
        except OSError as error:
            raise translate_os_error(error, folder) from None

    def _record_refusal(self, error: WapError) -> None:
        self.runner.workspace.audit_refusal(self.tool.name, error, self.caller)

    # -- a single operation

    async def _perform_single(self, operation: Operation) -> CallOutcome:
        try:
            async with nullcontext() if self.admit is None else self.admit(self.caller, operation):
                return await self._perform_with_consent(operation)
        except RateLimited as error:
            self._record_refusal(error)
            raise
        except WapError as error:
            raise relocate_error(error, operation) from None

    async def _perform_with_consent(self, operation: Operation) -> CallOutcome:
        try:
            return await self._perform(operation)
        except ApprovalRequired as error:
            refusal = error
        confirmed = operation.model_copy(update={"confirmed": True})
        if not await self._is_confirmation_enough(confirmed, refusal):
            return await self._wait_for_approval(operation, refusal)
        if self.confirm is not None:
            await self._get_confirmation(self.confirm, operation, refusal)
            return await self._perform_confirmed(confirmed)
        if self.tool.confirmed_by is None:
            return await self._wait_for_approval(operation, refusal)
        raise ApprovalRequired(
            f"{refusal.details['reason']}.",
            hint=f"Show the user what you want to do; when they agree, call again with {self.tool.confirmed_by}: true.",
            rule=confirmation_prompt.RULE,
        )

    async def _perform(self, operation: Operation) -> CallOutcome:
        workspace = self.runner.workspace
        context = self.runner.new_call(Step(self.tool.name, self.tool.name, operation), self.caller, DIALECT)
        encode = partial(outcome.encode_result, self.tool, operation)
        if self.progress is not None and isinstance(operation, GitTransfer):
            async with call_progress.report_output(self.progress, "Git is at work."):
                return await workspace.answer(operation, self.caller, encode, context)
        if self.progress is None or not isinstance(operation, RunCommand):
            return await workspace.answer(operation, self.caller, encode, context)
        async with (
            call_progress.report_output(self.progress, "The command runs and has written nothing yet.") as tail,
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
        except ApprovalRequired as refusal:  # the policy has just changed
            return await self._wait_for_approval(operation, refusal)

    async def _is_confirmation_enough(self, confirmed: Operation, refusal: ApprovalRequired) -> bool:
        """Return whether the confirmation of the client's user suffices; else a person in Jupyter must approve."""
        if refusal.details.get("rule") != confirmation_prompt.RULE:
            return False
        (verdict,) = await self.runner.workspace.check([confirmed], self.caller)
        return verdict.kind is VerdictKind.ALLOW

    async def _get_confirmation(self, confirm: Confirm, operation: Operation, refusal: ApprovalRequired) -> None:
        workspace = self.runner.workspace
        build = partial(confirmation_prompt.build_prompt, self.tool.name, operation, refusal, workspace, self.caller)
        prompt = await workspace.offload(build)
        if not await confirm(prompt):
            raise ApprovalRequired(
                "The user did not agree.",
                hint="Do not try it in another way; ask them what to do instead.",
                rule=confirmation_prompt.RULE,
                declined=True,
            )
        if await workspace.offload(build) != prompt:
            raise Conflict("What was shown to the user has changed since.", hint="Call again, to have it shown anew.")

    async def _wait_for_approval(self, operation: Operation, refusal: ApprovalRequired) -> CallOutcome:
        """Request the approval of a person in Jupyter; raise ApprovalRequired when it takes longer than `wait`."""
        step = Step(self.tool.name, self.tool.name, operation)
        request = asyncio.ensure_future(self.runner.request_approval(step, self.caller, refusal, dialect=DIALECT))
        try:
            return outcome.decode_stored(self.tool, await asyncio.shield(request))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(run_wait.withdraw_request(request, self.runner, self.caller)))
            raise
        except ApprovalRequired as error:
            pending = error
        run_id = str(pending.details["runId"])
        answer = await self._wait_for_run(run_id, self.wait, self.runner.wait_for_response(run_id, self.wait))
        if answer is not None:
            return outcome.decode_stored(self.tool, answer)
        pending.hint = (
            f"A person decides in Jupyter, and then it is done. See what became of it with getRun {run_id};"
            " until they have decided, the same call is answered with the same run."
        )
        raise pending

    # -- runs

    async def _run_batch(self, parameters: RunOperationsParameters) -> CallOutcome:
        try:
            steps = await self.runner.workspace.offload(parameters.steps)
            refused = await batch_authorization.find_refusals(steps, self.caller, self.authorize)
        except PermissionDenied as error:
            self._record_refusal(error)
            raise
        run = await self.runner.start(
            steps, parameters.options(), self.caller, dialect=agent_spaces.DIALECT, refused=refused
        )
        await self._wait_for_run(run.id, parameters.wait, self.runner.wait(run.id, parameters.wait))
        return await self._report(run.id)

    async def _get_run(self, parameters: GetRunParameters) -> CallOutcome:
        run = await self.runner.get(parameters.run_id, self.caller)
        if parameters.wait and not run.status.is_final:
            async with call_progress.report_output(self.progress, call_progress.RUN_CONTINUES) as tail:
                await call_progress.follow_until_end(self.runner, run.id, self.caller, tail, parameters.wait)
        return await self._report(run.id)

    async def _wait_for_run(self, run_id: str, seconds: float, wait: Awaitable[T]) -> T:
        async def report() -> T:
            async with call_progress.report_run(self.runner, run_id, self.caller, self.progress if seconds else None):
                return await wait

        return await run_wait.withdraw_on_cancel(report(), self.runner, run_id, self.caller)

    async def _get_output(self, parameters: GetOutputParameters) -> CallOutcome:
        run = await self.runner.get(parameters.run_id, self.caller)
        step = parameters.operation_id or next(
            (step.id for step in reversed(run.steps) if isinstance(step.operation, RunCommand)), None
        )
        if step is None:
            raise NotFound("The run has no command.", hint="getRun tells what it did.", runId=run.id)
        page = await self._read_output(run.id, step, parameters.stream, parameters.offset, parameters.limit)
        return outcome.encode_answer(page)

    async def _read_output(
        self, run_id: str, step: str, stream: Literal["stdout", "stderr"], offset: int, limit: int
    ) -> OutputAnswer:
        page = await self.runner.output(run_id, step, stream, offset, limit, self.caller)
        return OutputAnswer.model_validate({"runId": run_id, **page})

    async def _report(self, run_id: str) -> CallOutcome:
        run = await self.runner.get(run_id, self.caller)
        message = await self.runner.encode_message(run, self.caller)
        report = RunReport.model_validate_json(message)
        if not run.status.is_final and run.position < len(run.steps):
            report = report.model_copy(update={"output": await self._find_output(run)})
        return await self.runner.workspace.offload(lambda: outcome.encode_answer(report))

    async def _find_output(self, run: Run) -> list[OutputAnswer] | None:
        """Return the beginning of what the command under way has put out, if anything."""
        step = run.steps[run.position]
        if not isinstance(step.operation, RunCommand):
            return None
        streams: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")
        limit = DEFAULT_OUTPUT_PAGE_BYTES
        pages = [await self._read_output(run.id, step.id, stream, 0, limit) for stream in streams]
        return [page for page in pages if page.content] or None


def _count_characters(value: object) -> int:
    """Count the characters of the texts in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _count_characters(each) for name, each in value.items())
    return sum(map(_count_characters, value)) if isinstance(value, list) else 1
