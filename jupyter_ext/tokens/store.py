"""The store of agent tokens: scoped credentials that agents use instead of the server's own token.

A token reads `wap_<id>_<secret>`. The store has a SHA-256 of the secret only (the secret is random, so there is nothing
to guess and a slow hash would buy nothing). Tokens live in the state folder, so they survive a restart, and servers
that share the folder share them; one thread owns the connection. A cached token expires after `CACHE_SECONDS`, so a
revocation by another server takes effect by then; one by this server takes effect immediately.
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
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TypeVar

from wap_kernel.engine.thread_pool import ThreadPool
from wap_kernel.model.caller import Scope
from wap_kernel.model.errors import NotFound, PermissionDenied, ProviderUnavailable, Unauthenticated, WapError
from wap_kernel.model.policy import Layers, Policy
from wap_kernel.state import schema

from .models import AgentToken, TokenSpec, format_timestamp, parse_timestamp
from .rate_limits import RateLimits

PREFIX = "wap_"
CACHE_SECONDS = 0.5
LAST_USE_PRECISION = timedelta(minutes=1)
"""The precision of `lastUsedAt`."""
_TOKEN_PATTERN = re.compile(r"wap_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
T = TypeVar("T")


@dataclass(frozen=True)
class _CachedToken:
    token: AgentToken
    digest: str
    read_at: float


class AgentTokenStore:
    """The agent tokens of one workspace."""

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
        self._cache: dict[str, _CachedToken] = {}
        """Tokens by id; only tokens that exist, so strangers cannot make it grow."""
        self._connection = schema.connect(state_dir)
        self._connection.row_factory = sqlite3.Row
        self._thread = ThreadPool("tokens", 1)
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._thread.close)
        self._connection.close()

    async def mint(self, spec: TokenSpec, created_by: str, *, vouched: bool = False) -> tuple[AgentToken, str]:
        """Store a new token; return it with the text that its holder sends."""
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = {
            **{"id": token_id, "workspace": self._workspace, "digest": _hash_secret(secret), "name": spec.name},
            "tools": None if spec.tools is None else json.dumps(spec.tools),
            "preset": spec.preset,
            "policy": None if spec.policy is None else json.dumps(spec.policy),
            "limits": spec.limits.model_dump_json(by_alias=True),
            **{"created_at": format_timestamp(self._now()), "created_by": created_by, "vouched": vouched},
            "expires_at": format_timestamp(spec.expires_at),
        }
        names = ", ".join(values)
        insert = f"INSERT INTO tokens ({names}) VALUES ({', '.join('?' * len(values))})"
        token = await self._run(lambda: self._insert(insert, tuple(values.values()), token_id))
        return token, f"{PREFIX}{token_id}_{secret}"

    async def verify(self, presented: str) -> AgentToken:
        """Return the token that `presented` belongs to, or raise Unauthenticated.

        Only a holder of the secret learns that a token was revoked or has expired.
        """
        match = _TOKEN_PATTERN.fullmatch(presented)
        if match is None:
            raise _unknown_token()
        token_id, digest = match[1], _hash_secret(match[2])
        cached = self._cache.get(token_id)
        if cached is None or self._clock() - cached.read_at >= CACHE_SECONDS:
            cached = await self._run(partial(self._load, token_id, digest))
        if cached is None or not hmac.compare_digest(cached.digest, digest):
            raise _unknown_token()
        if cached.token.revoked_at is not None:
            raise Unauthenticated("This agent token was revoked.", hint="Ask the person you work for for a new one.")
        if cached.token.expires_at <= self._now():
            raise Unauthenticated("This agent token has expired.", hint="Ask the person you work for for a new one.")
        return cached.token

    async def get_unrevoked(self, token_id: str) -> AgentToken:
        """Return the token that started a run, also when it has expired; raise PermissionDenied when it was revoked."""
        row = await self._run(lambda: self._row(token_id))
        token = None if row is None else _token_from_row(row)
        if token is None or token.revoked_at is not None:
            raise PermissionDenied("The agent's token was revoked.")
        return token

    async def page(self, limit: int, after: str | None = None) -> tuple[list[AgentToken], str | None]:
        """List tokens newest first, also revoked and expired ones; return the cursor of the next page, if any.

        Raises NotFound when `after` is no cursor.
        """
        tokens = await self._run(lambda: self._page(limit + 1, after))
        return tokens[:limit], tokens[limit - 1].id if len(tokens) > limit else None

    async def revoke(self, token_id: str) -> None:
        """Revoke a token for good; revoking it again changes nothing. Raises NotFound."""
        await self._run(lambda: self._revoke(token_id))

    async def find_revoked(self, tokens: Collection[str]) -> set[str]:
        """Return those of the tokens that were revoked, or that exist no longer; the next request is refused."""
        return await self._run(lambda: self._find_revoked(tokens))

    async def charge(self, token: str, day: str, amount: int, limit: int) -> bool:
        """Add `amount` to the bytes that a token wrote on `day`, unless the sum would pass `limit`.

        A negative amount takes bytes back. Returns whether the amount was added.
        """
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
        return _token_from_row(row)

    def _row(self, token_id: str) -> sqlite3.Row | None:
        # A state folder may serve several workspaces; a token opens only the one that it was minted in.
        query = "SELECT * FROM tokens WHERE id = ? AND workspace = ?"
        row: sqlite3.Row | None = self._connection.execute(query, (token_id, self._workspace)).fetchone()
        return row

    def _load(self, token_id: str, digest: str) -> _CachedToken | None:
        read_at = self._clock()
        row = self._row(token_id)
        if row is None:
            self._cache.pop(token_id, None)
            return None
        previous = self._cache.get(token_id)
        # The scope of a token never changes, and its policy takes a while to parse.
        token = _token_from_row(row).model_copy(
            update={"scope": _scope_from_row(row) if previous is None else previous.token.scope}
        )
        cached = self._cache[token_id] = _CachedToken(token, row["digest"], read_at)
        if hmac.compare_digest(cached.digest, digest):
            self._record_use(cached.token)
        return cached

    def _record_use(self, token: AgentToken) -> None:
        now = self._now()
        if token.last_used_at is not None and now - token.last_used_at < LAST_USE_PRECISION:
            return
        try:
            used = (format_timestamp(now.replace(second=0, microsecond=0)), token.id)
            self._connection.execute("UPDATE tokens SET last_used_at = ? WHERE id = ?", used)
        except sqlite3.Error as error:  # a full disk must not lock agents out that only read
            self._log.warning("wap: the last use of an agent token could not be recorded: %s", error)

    def _page(self, limit: int, after: str | None) -> list[AgentToken]:
        before = 2**63 - 1
        if after is not None:
            row = self._row(after)
            if row is None:
                raise NotFound("There is no such cursor.", hint="Take nextCursor from the page before.")
            before = row["number"]
        query = "SELECT * FROM tokens WHERE workspace = ? AND number < ? ORDER BY number DESC LIMIT ?"
        return [_token_from_row(row) for row in self._connection.execute(query, (self._workspace, before, limit))]

    def _revoke(self, token_id: str) -> None:
        query = "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND workspace = ?"
        cursor = self._connection.execute(query, (format_timestamp(self._now()), token_id, self._workspace))
        self._cache.pop(token_id, None)
        if not cursor.rowcount:
            raise NotFound("There is no such token.", hint="GET wap/tokens lists their ids.")

    def _find_revoked(self, tokens: Collection[str]) -> set[str]:
        marks = ", ".join("?" * len(tokens))
        query = f"SELECT id FROM tokens WHERE workspace = ? AND revoked_at IS NULL AND id IN ({marks})"
        revoked = set(tokens) - {row["id"] for row in self._connection.execute(query, (self._workspace, *tokens))}
        for token_id in revoked:
            self._cache.pop(token_id, None)
        return revoked

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


def _token_from_row(row: sqlite3.Row) -> AgentToken:
    return AgentToken(
        **{name: row[name] for name in ("id", "name", "preset", "created_by", "vouched")},
        **{name: parse_timestamp(row[name]) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")},
        tools=None if row["tools"] is None else tuple(json.loads(row["tools"])),
        policy=None if row["policy"] is None else json.loads(row["policy"]),
        limits=RateLimits.model_validate_json(row["limits"]),
    )


def _scope_from_row(row: sqlite3.Row) -> Scope:
    tools = None if row["tools"] is None else frozenset(json.loads(row["tools"]))
    return Scope(tools=tools, layers=build_policy_layers(row["name"], row["preset"], row["policy"]))


def build_policy_layers(name: str, preset: str | None, policy: str | None) -> Layers:
    """Return the policy layers of the token `name`: its preset and its own policy.

    Both bind, rather than one over the other: a token's own policy is meant to narrow its preset. A layer that this
    version cannot parse refuses everything.
    """
    from wap_kernel.policy import parse, presets  # loads all that checks the presets' examples

    layers: list[Policy] = []
    if preset is not None:
        try:
            layers.append(presets.load_preset(preset))
        except WapError as error:
            layers.append(Policy(name=preset, broken=error.text))
    if policy is not None:
        layers.append(parse.parse_policy(policy.encode("utf-8"), f"of the agent token {name!r}"))
    return tuple(layers)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _unknown_token() -> Unauthenticated:
    return Unauthenticated(
        "This agent token is not known here.", hint="An agent token opens only the workspace in which it was minted."
    )
