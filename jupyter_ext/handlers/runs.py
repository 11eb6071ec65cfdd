"""POST and GET wap/runs, and one run: get, cancel and revert it, apply what it left, list its changes, read output."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import Field

from wap_kernel.dialects import batch_authorization
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.tool import Parameters
from wap_kernel.model.command import Stream
from wap_kernel.model.errors import InvalidArgument, NotFound, PermissionDenied, WapError
from wap_kernel.model.limits import (
    DEFAULT_OUTPUT_PAGE_BYTES,
    DEFAULT_PAGE,
    DEFAULT_WAIT_SECONDS,
    MAX_IDEMPOTENCY_KEY_CHARACTERS,
    MAX_OUTPUT_OFFSET,
    MAX_OUTPUT_PAGE_BYTES,
    MAX_PAGE,
)
from wap_kernel.model.operations import Effect
from wap_kernel.model.run import Run, RunStatus, Step
from wap_kernel.runs.store.outputs import STREAMS

from . import parameters
from .base import WapHandler, verb

DIALECT = "agent_spaces"
KEY_HEADER = "Idempotency-Key"


class RunResponseHandler(WapHandler):
    """Answer with the events message of a run. A client that disconnects ends the wait, never the run."""

    _wait: asyncio.Future[Run] | None = None
    _is_disconnected = False

    async def answer_started_run(self, run: Run, wait: float) -> None:
        """Answer 201 when the run has ended, 202 while it runs or waits for an approval."""
        self.set_header("Location", f"{self.base_url}wap/runs/{run.id}")
        run = await self._wait_for(run, wait)
        self.set_status(201 if run.status.is_final else 202)
        await self.write_message(run)

    async def answer_continued_run(self, run: Run, wait: float) -> None:
        """Answer 202 while the run is running, 200 when it has ended or waits for an approval again."""
        run = await self._wait_for(run, wait)
        self.set_status(202 if run.status is RunStatus.RUNNING else 200)
        await self.write_message(run)

    async def _wait_for(self, run: Run, wait: float) -> Run:
        if wait == 0 or run.status is not RunStatus.RUNNING or self._is_disconnected:
            return run
        self._wait = asyncio.ensure_future(self.runner.wait(run.id, wait))
        try:
            return await self._wait
        except asyncio.CancelledError:
            if not self._is_disconnected:
                raise
            return run
        finally:
            self._wait = None

    async def write_message(self, run: Run) -> None:
        if self._is_disconnected:
            self.set_status(499, "Client closed the connection")  # for the access log; nobody reads the answer
            return
        self.finish(await self.runner.encode_message(run, self.caller))

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._is_disconnected = True
        if self._wait is not None:
            self._wait.cancel()


class RunOperationsHandler(RunResponseHandler):
    """Start a run, as a tool of its own beside WAP's."""

    allowed: tuple[str, ...] = ("POST",)
    open_to_agents = True

    @verb
    async def post(self) -> None:
        wait, key = parameters.get_seconds(self.request, "wait", DEFAULT_WAIT_SECONDS), self._idempotency_key()
        body, workspace = self.take_body(), self.workspace
        message, steps, digest = await workspace.offload(lambda: _parse_message(body))
        refused = await self._find_refused_steps(steps)
        run = await self.runner.start(
            steps, message.options(), self.caller, dialect=DIALECT, key=key, digest=digest, refused=refused
        )
        await self.answer_started_run(run, wait)

    def _idempotency_key(self) -> str | None:
        key = self.request.headers.get(KEY_HEADER)
        if key is not None and not (
            0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS and key.isascii() and key.isprintable()
        ):
            raise InvalidArgument(
                f"{KEY_HEADER}: It must be 1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters."
            )
        return key

    async def _find_refused_steps(self, steps: Sequence[Step]) -> Mapping[str, WapError]:
        try:
            return await batch_authorization.find_refusals(steps, self.caller, self.authorize)
        except PermissionDenied as error:
            self.workspace.audit_refusal(self.requested_action.rpartition("/")[2], error, self.caller)
            raise


class RunsHandler(RunOperationsHandler):
    """Start a run; list the runs."""

    allowed = ("GET", "HEAD", "POST")

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        status = parameters.get_choice(self.request, "status", [status.value for status in RunStatus])
        limit = parameters.get_integer(self.request, "limit", DEFAULT_PAGE, 1, MAX_PAGE)
        cursor = parameters.get_text(self.request, "cursor")
        chosen = None if status is None else RunStatus(status)
        try:
            runs, following = await self.runner.page(self.caller, chosen, limit, cursor)
        except NotFound as error:
            raise InvalidArgument(error.message, hint=error.hint) from None
        answer: dict[str, object] = {"runs": await self.runner.summaries(runs, self.caller)}
        if following is not None:
            answer["nextCursor"] = following
        self.finish(json.dumps(answer))

    head = get


class RunHandler(RunResponseHandler):
    """Return one run with its events."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        await self.write_message(await self.runner.get(run_id, self.caller))

    head = get


class CancelHandler(RunResponseHandler):
    """Cancel one run."""

    allowed = ("POST",)
    open_to_agents = True

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE)
        await self.write_message(await self.runner.cancel(run_id, self.caller))


class RevertRequest(Parameters):
    """The body of `POST wap/runs/{runId}/revert`; it may be empty."""

    force: bool = Field(False, description="Also where a later change would be lost.")


class RevertHandler(RunResponseHandler):
    """Revert one run, as a run of its own."""

    allowed = ("POST",)
    open_to_agents = True

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE)
        wait = parameters.get_seconds(self.request, "wait", DEFAULT_WAIT_SECONDS)
        request = parameters.parse_body(RevertRequest, self.take_body())
        await self.answer_started_run(await self.runner.revert(run_id, self.caller, force=request.force), wait)


class ApplyRequest(Parameters):
    """The body of `POST wap/runs/{runId}/apply`; it may be empty."""

    paths: list[str] | None = Field(
        None, min_length=1, description="Only these files and folders; without it, everything that was not applied."
    )


class ApplyHandler(RunResponseHandler):
    """Let a person apply what a run left in its layer, as a run of its own."""

    allowed = ("POST",)

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE)
        wait = parameters.get_seconds(self.request, "wait", DEFAULT_WAIT_SECONDS)
        request = parameters.parse_body(ApplyRequest, self.take_body(), "Name folders, or leave paths out.")
        await self.answer_started_run(await self.runner.apply(run_id, request.paths, self.caller), wait)


class ChangesHandler(WapHandler):
    """List the changes of one run."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        async with self.count_as_operation():  # the server stats every file that the run changed
            changes = await self.runner.changes(run_id, self.caller)
        self.finish(await self.workspace.offload(lambda: json.dumps(changes)))

    head = get


class OutputHandler(WapHandler):
    """Return one page of a command's output."""

    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str, operation_id: str) -> None:
        await self.authorize(Effect.READ)
        stream = cast(Stream, parameters.get_choice(self.request, "stream", STREAMS) or STREAMS[0])
        offset = parameters.get_integer(self.request, "offset", 0, 0, MAX_OUTPUT_OFFSET)
        limit = parameters.get_integer(self.request, "limit", DEFAULT_OUTPUT_PAGE_BYTES, 1, MAX_OUTPUT_PAGE_BYTES)
        page = await self.runner.output(run_id, operation_id, stream, offset, limit, self.caller)
        self.finish(await self.workspace.offload(lambda: json.dumps(page)))

    head = get


def _parse_message(body: bytes) -> tuple[OperationsMessage, list[Step], str]:
    """Return the message, its steps, and the digest that tells a repeated request from another one."""
    message = agent_spaces.parse_message(body)
    return message, message.steps(), hashlib.sha256(body).hexdigest()
