"""POST and GET wap/runs, and one run: look at it, cancel it, undo it, see its changes and read its output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import cast

from wap_kernel.dialects import batch_authorization
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
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
from wap_kernel.model.run import RunStatus, Step
from wap_kernel.runs.store.outputs import STREAMS

from . import parameters
from .base import WapHandler, verb
from .run_requests import Revert
from .waiting import WaitingHandler

DIALECT = "agent_spaces"
KEY_HEADER = "Idempotency-Key"


class RunsHandler(WaitingHandler):
    allowed = ("GET", "HEAD", "POST")
    open_to_agents = True

    @verb
    async def post(self) -> None:
        wait, key = parameters.seconds(self.request, "wait", DEFAULT_WAIT_SECONDS), self._key()
        body, workspace = self.take_body(), self.workspace
        message, steps, digest = await workspace.offload(lambda: _read(body))
        refused = await self._refusals(steps)
        run = await self.runner.start(
            steps, message.options(), self.caller, dialect=DIALECT, key=key, digest=digest, refused=refused
        )
        await self.answer_begun(run, wait)

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ)
        status = parameters.choice(self.request, "status", [status.value for status in RunStatus])
        limit = parameters.whole(self.request, "limit", DEFAULT_PAGE, 1, MAX_PAGE)
        cursor = parameters.text(self.request, "cursor")
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

    def _key(self) -> str | None:
        key = self.request.headers.get(KEY_HEADER)
        if key is not None and not (
            0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS and key.isascii() and key.isprintable()
        ):
            raise InvalidArgument(
                f"{KEY_HEADER}: It must be 1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters."
            )
        return key

    async def _refusals(self, steps: Sequence[Step]) -> Mapping[str, WapError]:
        try:
            return await batch_authorization.refusals(steps, self.caller, self.authorize)
        except PermissionDenied as error:
            self.workspace.refused("runs", error, self.caller)
            raise


class RunHandler(WaitingHandler):
    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        await self.write_message(await self.runner.get(run_id, self.caller))

    head = get


class CancelHandler(WaitingHandler):
    allowed = ("POST",)
    open_to_agents = True

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE)
        await self.write_message(await self.runner.cancel(run_id, self.caller))


class RevertHandler(WaitingHandler):
    allowed = ("POST",)
    open_to_agents = True

    @verb
    async def post(self, run_id: str) -> None:
        await self.authorize(Effect.WRITE)
        wait = parameters.seconds(self.request, "wait", DEFAULT_WAIT_SECONDS)
        request = Revert.read(self.take_body())
        await self.answer_begun(await self.runner.revert(run_id, self.caller, force=request.force), wait)


class ChangesHandler(WapHandler):
    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str) -> None:
        await self.authorize(Effect.READ)
        async with self.counted():  # it looks at every file that the run changed
            changes = await self.runner.changes(run_id, self.caller)
        self.finish(await self.workspace.offload(lambda: json.dumps(changes)))

    head = get


class OutputHandler(WapHandler):
    allowed = ("GET", "HEAD")
    open_to_agents = True

    @verb
    async def get(self, run_id: str, operation_id: str) -> None:
        await self.authorize(Effect.READ)
        stream = cast(Stream, parameters.choice(self.request, "stream", STREAMS) or STREAMS[0])
        offset = parameters.whole(self.request, "offset", 0, 0, MAX_OUTPUT_OFFSET)
        limit = parameters.whole(self.request, "limit", DEFAULT_OUTPUT_PAGE_BYTES, 1, MAX_OUTPUT_PAGE_BYTES)
        page = await self.runner.output(run_id, operation_id, stream, offset, limit, self.caller)
        self.finish(await self.workspace.offload(lambda: json.dumps(page)))

    head = get


def _read(body: bytes) -> tuple[OperationsMessage, list[Step], str]:
    """The message, its steps, and the digest by which a repeated request is told from another one."""
    message = agent_spaces.parse_message(body)
    return message, message.steps(), hashlib.sha256(body).hexdigest()
