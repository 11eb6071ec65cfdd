"""POST and GET wap/tokens, DELETE wap/tokens/{id}: a person mints, lists and revokes agent tokens."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.auth import User

from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE
from wap_kernel.model.operations import Effect

from .. import tool_definitions
from ..tokens.models import AgentToken
from ..tokens.requests import TokenRequest
from . import parameters
from .base import REVOCATIONS, WapHandler, verb

AUTH_RESOURCE = "wap_tokens"


class TokensHandler(WapHandler):
    """Mint an agent token; list the tokens."""

    allowed = ("GET", "HEAD", "POST")

    @verb
    async def post(self) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        body = self.take_body()
        spec = await self.workspace.offload(
            lambda: parameters.parse_body(TokenRequest, body, size_hint="Name fewer paths.").to_spec()
        )
        vouched = type(self.current_user) is not User
        if vouched:
            # This authorizer cannot be asked later, see `authorize`.
            for effect in tool_definitions.list_effects(spec.tools):
                await self.authorize(effect)
        token, secret = await self.tokens.mint(spec, self.caller.user, vouched=vouched)
        await self.workspace.audit_administration("mintToken", f"{token.id} {token.name}", self.caller)
        self.log.info("wap: agent token %s was minted", token.id)
        self.set_status(201)
        self.set_header("Cache-Control", "no-store")
        self.finish(_encode({**_describe_token(token), "token": secret}))

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ, AUTH_RESOURCE)
        limit = parameters.get_integer(self.request, "limit", DEFAULT_PAGE, 1, MAX_PAGE)
        cursor = parameters.get_text(self.request, "cursor")
        try:
            tokens, following = await self.tokens.page(limit, cursor)
        except NotFound as error:
            raise InvalidArgument(error.message, hint=error.hint) from None
        answer: dict[str, Any] = {"tokens": [_describe_token(token) for token in tokens]}
        if following is not None:
            answer["nextCursor"] = following
        self.finish(_encode(answer))

    head = get


class TokenHandler(WapHandler):
    """Revoke one agent token, and end what it has under way."""

    allowed = ("DELETE",)

    @verb
    async def delete(self, token_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        await self.tokens.revoke(token_id)
        await self.settings[REVOCATIONS].end(token_id)
        await self.workspace.audit_administration("revokeToken", token_id, self.caller)
        self.log.info("wap: agent token %s was revoked", token_id)
        self.set_status(204)
        self.finish()


def _describe_token(token: AgentToken) -> dict[str, Any]:
    fields: dict[str, Any] = token.model_dump(mode="json", by_alias=True, exclude_none=True)
    return fields


def _encode(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode("ascii")
