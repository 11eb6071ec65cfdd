"""The models of agent tokens: what is asked for, what is stored, what is answered."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from wap_kernel.model.caller import Caller, Scope

from .rate_limits import RateLimits


def format_timestamp(moment: datetime) -> str:
    """Format a moment in UTC, to the millisecond."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(text: str | None) -> datetime | None:
    """Parse what `format_timestamp` wrote; None stays None."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


Timestamp = Annotated[datetime, PlainSerializer(format_timestamp, return_type=str)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class TokenSpec(_Model):
    """The name, scope, limits and expiry of a token that is to be minted."""

    name: str
    tools: tuple[str, ...] | None = None
    preset: str | None = None
    policy: dict[str, Any] | None = None
    """The policy as the person wrote it, in either form of a policy file."""
    limits: RateLimits = RateLimits()
    expires_at: Timestamp


class AgentToken(TokenSpec):
    """A token as the store has it, without its secret."""

    id: str
    created_at: Timestamp
    created_by: str
    revoked_at: Timestamp | None = None
    last_used_at: Timestamp | None = None
    """The last use, rounded down to the minute."""
    vouched: bool = Field(False, exclude=True)
    """True when the server's authorizer approved the token on minting and cannot be asked again.

    See `WapHandler.authorize`.
    """
    scope: Scope = Field(Scope(tools=frozenset()), exclude=True)
    """The tools and policy of the token. `AgentTokenStore.verify` fills it in; the default opens nothing."""

    def to_caller(self, session: str | None = None, notebook: str | None = None) -> Caller:
        """Return the agent as the caller of an operation; session and notebook are its claims."""
        identity = {"user": self.created_by, "agent": self.name, "token": self.id, "scope": self.scope}
        return Caller(**identity, session=session, notebook=notebook)


class MintedToken(AgentToken):
    """A token with its secret, as the answer to its request shows it once."""

    token: str
