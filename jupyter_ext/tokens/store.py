"""Scoped agent tokens: what an agent holds instead of the key to the whole server.

`wap_<id>_<secret>`. The secret is shown once and kept as a SHA-256 only (it is random, so there is nothing to guess and
a slow hash would buy nothing). Tokens live in the state folder, so they survive a restart, and servers that share the
folder share them; one thread owns the connection. A token is looked up again when what is known of it is older than
`FRESH_SECONDS`, so a neighbour's revocation takes effect by then; our own does at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.caller import Scope
from wap_kernel.model.errors import NotFound, PermissionDenied, ProviderUnavailable, Unauthenticated, WapError
from wap_kernel.model.policy import Layers, Policy
from wap_kernel.state import schema

from .rate_limits import RateLimits

PREFIX = "wap_"
FRESH_SECONDS = 0.5
COARSE = timedelta(minutes=1)
"""How exact `lastUsedAt` is."""
_FORM = re.compile(r"wap_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
T = TypeVar("T")


def _in_text(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _from_text(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


Moment = Annotated[datetime, PlainSerializer(_in_text, return_type=str)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Order(_Model):
    """What a person asks for; checked by the handler."""

    name: str
    tools: tuple[str, ...] | None = None
    preset: str | None = None
    policy: dict[str, Any] | None = None
    """As it was written, in either form of a policy file."""
    limits: RateLimits = RateLimits()
    expires_at: Moment


class AgentToken(Order):
    """A token as it is kept, without its secret."""

    id: str
    created_at: Moment
    created_by: str
    revoked_at: Moment | None = None
    last_used_at: Moment | None = None
    """To the minute."""
    vouched: bool = Field(False, exclude=True)
    """The server's authorizer was asked when it was minted and cannot be asked again (see `handlers/base.py`)."""
    scope: Scope = Field(Scope(tools=frozenset()), exclude=True)
    """Filled in by `AgentTokens.verify`; without it, it opens nothing."""


class MintedToken(AgentToken):
    """As its holder gets it, once."""

    token: str


@dataclass(frozen=True)
class _Known:
    token: AgentToken
    digest: str
    read_at: float


class AgentTokens:
    """The tokens of one workspace."""

    def __init__(
        self,
        state_dir: str,
        workspace: str,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._workspace = workspace
        self._log = log
        self._clock = clock
        self._now = now
        self._known: dict[str, _Known] = {}
        """Only tokens that exist, so strangers cannot make it grow."""
        self._connection = schema.connect(state_dir)
        self._connection.row_factory = sqlite3.Row
        self._thread = ThreadPool("tokens", 1)
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._thread.close)
        self._connection.close()

    async def mint(self, order: Order, created_by: str, *, vouched: bool = False) -> tuple[AgentToken, str]:
        """The new token, and what its holder sends."""
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = {
            **{"id": token_id, "workspace": self._workspace, "digest": _digest(secret), "name": order.name},
            "tools": None if order.tools is None else json.dumps(order.tools),
            "preset": order.preset,
            "policy": None if order.policy is None else json.dumps(order.policy),
            "limits": order.limits.model_dump_json(by_alias=True),
            **{"created_at": _in_text(self._now()), "created_by": created_by, "vouched": vouched},
            "expires_at": _in_text(order.expires_at),
        }
        names = ", ".join(values)
        insert = f"INSERT INTO tokens ({names}) VALUES ({', '.join('?' * len(values))})"
        token = await self._run(lambda: self._insert(insert, tuple(values.values()), token_id))
        return token, f"{PREFIX}{token_id}_{secret}"

    async def verify(self, presented: str) -> AgentToken:
        """The token that its holder sent, if it is good; raises Unauthenticated. Only who has the secret learns why."""
        form = _FORM.fullmatch(presented)
        if form is None:
            raise _unknown()
        token_id, digest = form[1], _digest(form[2])
        known = self._known.get(token_id)
        if known is None or self._clock() - known.read_at >= FRESH_SECONDS:
            known = await self._run(partial(self._look_up, token_id, digest))
        if known is None or not hmac.compare_digest(known.digest, digest):
            raise _unknown()
        if known.token.revoked_at is not None:
            raise Unauthenticated("This agent token was revoked.", hint="Ask the person you work for for a new one.")
        if known.token.expires_at <= self._now():
            raise Unauthenticated("This agent token has expired.", hint="Ask the person you work for for a new one.")
        return known.token

    async def known(self, token_id: str) -> AgentToken:
        """For what was begun with a token and goes on later: it may have expired meanwhile, but not been revoked."""
        row = await self._run(lambda: self._row(token_id))
        token = None if row is None else _token(row)
        if token is None or token.revoked_at is not None:
            raise PermissionDenied("The agent's token was revoked.")
        return token

    async def page(self, limit: int, after: str | None = None) -> tuple[list[AgentToken], str | None]:
        """Newest first, also those that are revoked or have expired; with the cursor of the next page, if there is one.

        Raises NotFound when `after` is no cursor.
        """
        tokens = await self._run(lambda: self._page(limit + 1, after))
        return tokens[:limit], tokens[limit - 1].id if len(tokens) > limit else None

    async def revoke(self, token_id: str) -> None:
        """For good. Revoking again changes nothing; raises NotFound."""
        await self._run(lambda: self._revoke(token_id))

    async def charge(self, token: str, day: str, amount: int, limit: int) -> bool:
        """Add to the bytes that a token wrote on a day, unless they would be over `limit`. What is negative is given
        back, if it is still the same day."""
        return await self._run(lambda: self._charge(token, day, amount, limit))

    # -- on the thread that owns the connection

    async def _run(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise ProviderUnavailable("The server is shutting down.")
        try:
            return await self._thread.run(work)
        except sqlite3.Error as error:
            self._log.error("wap: the agent tokens cannot be read or written: %s", error)
            raise ProviderUnavailable(
                "The agent tokens cannot be read or written.", hint="The server's log says why."
            ) from None

    def _insert(self, statement: str, values: tuple[object, ...], token_id: str) -> AgentToken:
        self._connection.execute(statement, values)
        row = self._row(token_id)
        assert row is not None
        return _token(row)

    def _row(self, token_id: str) -> sqlite3.Row | None:
        # A state folder may serve several workspaces; a token opens only the one that it was minted in.
        query = "SELECT * FROM tokens WHERE id = ? AND workspace = ?"
        row: sqlite3.Row | None = self._connection.execute(query, (token_id, self._workspace)).fetchone()
        return row

    def _look_up(self, token_id: str, digest: str) -> _Known | None:
        read_at = self._clock()
        row = self._row(token_id)
        if row is None:
            self._known.pop(token_id, None)
            return None
        before = self._known.get(token_id)
        # What a token opens never changes, and its policy takes a while to read.
        token = _token(row).model_copy(update={"scope": _scope(row) if before is None else before.token.scope})
        known = self._known[token_id] = _Known(token, row["digest"], read_at)
        if hmac.compare_digest(known.digest, digest):
            self._note_use(known.token)
        return known

    def _note_use(self, token: AgentToken) -> None:
        now = self._now()
        if token.last_used_at is not None and now - token.last_used_at < COARSE:
            return
        try:
            used = (_in_text(now.replace(second=0, microsecond=0)), token.id)
            self._connection.execute("UPDATE tokens SET last_used_at = ? WHERE id = ?", used)
        except sqlite3.Error as error:  # a full disk must not lock readers out
            self._log.warning("wap: the last use of an agent token could not be noted: %s", error)

    def _page(self, limit: int, after: str | None) -> list[AgentToken]:
        before = 2**63 - 1
        if after is not None:
            row = self._row(after)
            if row is None:
                raise NotFound("There is no such cursor.", hint="Take nextCursor from the page before.")
            before = row["number"]
        query = "SELECT * FROM tokens WHERE workspace = ? AND number < ? ORDER BY number DESC LIMIT ?"
        return [_token(row) for row in self._connection.execute(query, (self._workspace, before, limit))]

    def _revoke(self, token_id: str) -> None:
        query = "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND workspace = ?"
        done = self._connection.execute(query, (_in_text(self._now()), token_id, self._workspace))
        self._known.pop(token_id, None)
        if not done.rowcount:
            raise NotFound("There is no such token.", hint="GET wap/tokens lists their ids.")

    def _charge(self, token: str, day: str, amount: int, limit: int) -> bool:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            query = "SELECT bytes FROM bytes_written WHERE token = ? AND day = ?"
            row = self._connection.execute(query, (token, day)).fetchone()
            total = (row["bytes"] if row else 0) + amount
            fits = 0 <= total <= limit
            if fits:
                self._connection.execute("REPLACE INTO bytes_written VALUES (?, ?, ?)", (token, day, total))
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._connection.rollback()
            raise
        return fits


def _token(row: sqlite3.Row) -> AgentToken:
    return AgentToken(
        **{name: row[name] for name in ("id", "name", "preset", "created_by", "vouched")},
        **{name: _from_text(row[name]) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")},
        tools=None if row["tools"] is None else tuple(json.loads(row["tools"])),
        policy=None if row["policy"] is None else json.loads(row["policy"]),
        limits=RateLimits.model_validate_json(row["limits"]),
    )


def _scope(row: sqlite3.Row) -> Scope:
    tools = None if row["tools"] is None else frozenset(json.loads(row["tools"]))
    return Scope(tools=tools, layers=layers(row["name"], row["preset"], row["policy"]))


def layers(name: str, preset: str | None, policy: str | None) -> Layers:
    """What binds the token of this name. Both bind, rather than one over the other: what a token says besides its
    preset is meant to narrow it. One that cannot be read (by this version) refuses everything."""
    from wap_kernel.policy import parse, presets  # with all that checks the presets' examples

    found: list[Policy] = []
    if preset is not None:
        try:
            found.append(presets.load(preset))
        except WapError as error:
            found.append(Policy(name=preset, broken=error.text))
    if policy is not None:
        found.append(parse.parse(policy.encode("utf-8"), f"of the agent token {name!r}"))
    return tuple(found)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        "This agent token is not known here.", hint="It opens only the workspace in which it was minted."
    )
