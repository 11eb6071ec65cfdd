"""POST and GET wap/tokens, DELETE wap/tokens/{id}: a person mints, lists and revokes agent tokens."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.auth import User
from pydantic import ValidationError

from wap_kernel.dialects.tool import LARGE, invalid
from wap_kernel.model.errors import InvalidArgument, NotFound, TooLarge
from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE
from wap_kernel.model.operations import Effect

from .. import tool_definitions
from ..tokens.requests import NewToken
from ..tokens.store import AgentToken
from .base import WapHandler, verb

AUTH_RESOURCE = "wap_tokens"


class TokensHandler(WapHandler):
    allowed = ("GET", "HEAD", "POST")

    @verb
    async def post(self) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        body = self.take_body()
        order = await self.workspace.offload(lambda: _read(body).order())
        vouched = type(self.current_user) is not User
        if vouched:
            # The last chance to ask this authorizer, see `authorize`.
            for effect in tool_definitions.effects(order.tools):
                await self.authorize(effect)
        token, secret = await self.tokens.mint(order, self.current_user.username, vouched=vouched)
        await self.workspace.administered("mintToken", f"{token.id} {token.name}", self.caller)
        self.log.info("wap: agent token %s was minted", token.id)
        self.set_status(201)
        self.set_header("Cache-Control", "no-store")
        self.finish(_encode({**_shown(token), "token": secret}))

    @verb
    async def get(self) -> None:
        await self.authorize(Effect.READ, AUTH_RESOURCE)
        limit, cursor = self._limit(), self._argument("cursor")
        try:
            tokens, following = await self.tokens.page(limit, cursor)
        except NotFound as error:
            raise InvalidArgument(error.message, hint=error.hint) from None
        answer: dict[str, Any] = {"tokens": [_shown(token) for token in tokens]}
        if following is not None:
            answer["nextCursor"] = following
        self.finish(_encode(answer))

    head = get

    def _limit(self) -> int:
        text = self._argument("limit")
        if text is None:
            return DEFAULT_PAGE
        if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_PAGE):
            raise InvalidArgument("limit: It is not a number of tokens.", hint=f"From 1 to {MAX_PAGE}.")
        return int(text)

    def _argument(self, name: str) -> str | None:
        values = self.request.query_arguments.get(name)
        return values[-1].decode("utf-8", "replace") if values else None


class TokenHandler(WapHandler):
    allowed = ("DELETE",)

    @verb
    async def delete(self, token_id: str) -> None:
        await self.authorize(Effect.WRITE, AUTH_RESOURCE)
        await self.tokens.revoke(token_id)
        self.runner.cancel_all_of(token_id)
        await self.workspace.administered("revokeToken", token_id, self.caller)
        self.log.info("wap: agent token %s was revoked", token_id)
        self.set_status(204)
        self.finish()


def _read(body: bytes) -> NewToken:
    if len(body) > LARGE:
        raise TooLarge(f"The description of a token is over {LARGE} bytes.", hint="Name fewer paths.", limit=LARGE)
    try:
        return NewToken.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise invalid(error, NewToken) from None


def _shown(token: AgentToken) -> dict[str, Any]:
    shown: dict[str, Any] = token.model_dump(mode="json", by_alias=True, exclude_none=True)
    return shown


def _encode(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode("ascii")
