"""Serve the workspace client from this process, with the engine, policy, state and answers of a server."""

from __future__ import annotations

import hashlib
import json
import time
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from wap_kernel.client.backend import Data, Decision, Endpoint, RunUpdate
from wap_kernel.client.claims import Claims
from wap_kernel.client.http.json_body import encode_body
from wap_kernel.model.errors import InvalidArgument, NotFound, ProviderUnavailable
from wap_kernel.model.limits import MAX_OUTPUT_OFFSET, MAX_OUTPUT_PAGE_BYTES, MAX_PAGE, MAX_REASON_CHARACTERS

if TYPE_CHECKING:
    from wap_kernel.model.caller import Caller
    from wap_kernel.model.command import Stream
    from wap_kernel.model.run import Run
    from wap_kernel.policy.verdict import Verdict


class EmbeddedBackend:
    """The engine on `folder`, as a server with the same configuration would serve it.

    With `confined_only`, the engine refuses commands where nothing confines them. The engine ends with the process, or
    by `close`.
    """

    def __init__(self, folder: str, endpoint: Endpoint | None = None, confined_only: bool = False) -> None:
        from wap_kernel.client.embedded_loop import EngineThread
        from wap_kernel.model.caller import Caller

        self._engine = EngineThread(folder, confined_only=confined_only)
        self._workspace, self._runner = self._engine.workspace, self._engine.runner
        claims = Claims.of_process()
        self._caller: Caller = Caller(session=claims.session, notebook=claims.notebook)
        self._endpoint = endpoint or Endpoint("embedded", self._workspace.root, "the folder was named")
        self._closing = weakref.finalize(self, self._engine.close)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    def call(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        from wap_kernel.dialects.wap import tools as wap

        body = encode_body(parameters)
        return cast(Data, json.loads(self._engine.wait(wap.call_tool(tool, body, self._runner, self._caller))))

    def call_workspace(self, tool: str, parameters: Mapping[str, Any]) -> Data:
        from wap_kernel.dialects.tool_interface import tool_call

        body = encode_body(parameters)
        return cast(Data, json.loads(self._engine.wait(tool_call.call_tool(tool, body, self._runner, self._caller))))

    def start(self, message: Mapping[str, Any], key: str) -> Data:
        return self._engine.wait(self._start(encode_body(message), key))

    async def _start(self, body: bytes, key: str) -> Data:
        from wap_kernel.dialects.agent_spaces import operations as agent_spaces

        parsed = await self._workspace.offload(lambda: agent_spaces.parse_message(body))
        digest = hashlib.sha256(body).hexdigest()
        steps, options, dialect = parsed.steps(), parsed.options(), agent_spaces.DIALECT
        return await self._encode(
            await self._runner.start(steps, options, self._caller, dialect=dialect, key=key, digest=digest)
        )

    def follow(self, run_id: str, after: str = "", seconds: float | None = None) -> Generator[RunUpdate, None, None]:
        from wap_kernel.client.embedded_loop import AsyncPuller

        deadline = None if seconds is None else time.monotonic() + seconds
        events = AsyncPuller(self._runner.stream_events(run_id, after or None, self._caller))
        try:
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                live = self._engine.wait(events.next(left))
                if live is None:
                    return
                yield RunUpdate(live.id, live.name, live.data)
        finally:
            with suppress(ProviderUnavailable):  # closed meanwhile
                self._engine.wait(events.close())

    def get(self, run_id: str) -> Data:
        return self._engine.wait(self._get(run_id))

    async def _get(self, run_id: str) -> Data:
        return await self._encode(await self._runner.get(run_id, self._caller))

    def runs(self, status: str | None, limit: int) -> Data:
        return self._engine.wait(self._runs(status, limit))

    async def _runs(self, status: str | None, limit: int) -> Data:
        from wap_kernel.model.run import RunStatus

        _require_choice("status", status, [known.value for known in RunStatus])
        _require_range("limit", limit, 1, MAX_PAGE)
        chosen = None if status is None else RunStatus(status)
        runs, following = await self._runner.page(self._caller, chosen, limit, None)
        page: Data = {"runs": await self._runner.summaries(runs, self._caller)}
        return page if following is None else {**page, "nextCursor": following}

    def decide(self, run_id: str, approval_id: str, decision: Decision, reason: str | None, *, remember: bool) -> Data:
        from wap_kernel.runs.decisions import Decision as Decided

        if reason is not None and len(reason) > MAX_REASON_CHARACTERS:
            raise InvalidArgument(f"reason: The text may have at most {MAX_REASON_CHARACTERS} characters.")
        is_approved = decision == "approved"
        outcome = Decided(approved=is_approved, approval_id=approval_id, reason=reason, remember=remember)

        async def decide() -> Data:
            return await self._encode(await self._runner.decide(run_id, outcome, self._caller))

        return self._engine.wait(decide())

    def cancel(self, run_id: str) -> Data:
        async def cancel() -> Data:
            return await self._encode(await self._runner.cancel(run_id, self._caller))

        return self._engine.wait(cancel())

    def revert(self, run_id: str, *, force: bool) -> Data:
        async def revert() -> Data:
            return await self._encode(await self._runner.revert(run_id, self._caller, force=force))

        return self._engine.wait(revert())

    def apply(self, run_id: str, paths: Sequence[str] | None) -> Data:
        async def apply() -> Data:
            return await self._encode(await self._runner.apply(run_id, paths, self._caller))

        return self._engine.wait(apply())

    def changes(self, run_id: str) -> Data:
        return self._engine.wait(self._runner.changes(run_id, self._caller))

    def output(self, run_id: str, operation_id: str, stream: str, offset: int, limit: int) -> Data:
        from wap_kernel.runs.store.outputs import STREAMS

        _require_choice("stream", stream, STREAMS)
        _require_range("offset", offset, 0, MAX_OUTPUT_OFFSET)
        _require_range("limit", limit, 1, MAX_OUTPUT_PAGE_BYTES)
        name = cast("Stream", stream)
        return self._engine.wait(self._runner.output(run_id, operation_id, name, offset, limit, self._caller))

    def policy(self) -> Data:
        return self._engine.wait(self._workspace.describe_policy(self._caller))

    def check(self, message: Mapping[str, Any]) -> Data:
        return self._engine.wait(self._check(encode_body(message)))

    async def _check(self, body: bytes) -> Data:
        from wap_kernel.dialects.agent_spaces import operations as agent_spaces

        steps = await self._workspace.offload(lambda: agent_spaces.parse_message(body).steps())
        verdicts = await self._workspace.check([step.operation for step in steps], self._caller)
        return {"verdicts": [_encode_verdict(step.id, verdict) for step, verdict in zip(steps, verdicts, strict=True)]}

    def audit(self, limit: int, tool: str | None, outcome: str | None) -> Data:
        from wap_kernel.state.audit.query import OUTCOMES, AuditQuery

        _require_range("limit", limit, 1, MAX_PAGE)
        _require_choice("outcome", outcome, OUTCOMES)
        page = AuditQuery(limit=limit, cursor=None, tool=tool, outcome=outcome)
        return self._engine.wait(self._workspace.audit_page(page))

    def grants(self) -> Data:
        given = self._engine.wait(self._workspace.offload(self._workspace.grants.records))
        return {
            "grants": [
                {"id": one.id, "allows": one.grant.text, "createdAt": one.created_at, "createdBy": one.created_by}
                for one in reversed(given)
            ]
        }

    def revoke(self, grant_id: str) -> None:
        self._engine.wait(self._revoke(grant_id))

    async def _revoke(self, grant_id: str) -> None:
        if not await self._workspace.offload(lambda: self._workspace.grants.revoke(grant_id)):
            raise NotFound("There is no such grant.", hint="List the grants to see their ids.")
        await self._workspace.audit_administration("revokeGrant", grant_id, self._caller)

    def close(self) -> None:
        self._closing()

    async def _encode(self, run: Run) -> Data:
        return await self._runner.message(run, self._caller)


def _encode_verdict(operation_id: str, verdict: Verdict) -> Data:
    fields = {"operationId": operation_id, "verdict": verdict.kind.value, "rule": verdict.rule}
    suggestion = {"suggestion": verdict.suggestion} if verdict.suggestion else {}
    return {**fields, "reason": verdict.reason, **suggestion}


def _require_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgument(f"{name}: The value must be a whole number from {least} to {most}.")


def _require_choice(name: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise InvalidArgument(f"Unknown {name}.", hint=f"Choose one of: {', '.join(known)}.", known=list(known))
