"""The request for an agent token: its fields, their defaults and their bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field
from pydantic_core import PydanticCustomError

from wap_kernel.dialects.coding_environment.tools import ALL_TOOLS, PROFILES, list_profile_names
from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import DEFAULT_TOKEN_DAYS, MAX_TOKEN_DAYS

from ..tool_definitions import list_tool_names
from .models import TokenSpec
from .rate_limits import RateLimits
from .store import build_policy_layers

DEFAULT_LIFETIME = timedelta(days=DEFAULT_TOKEN_DAYS)
MAX_LIFETIME = timedelta(days=MAX_TOKEN_DAYS)


def list_presets() -> tuple[str, ...]:
    from wap_kernel.policy import presets  # loads all that checks their examples

    return tuple(presets.PRESETS)


def _check_printable(name: str) -> str:
    if not name.isprintable() or not name.strip():
        raise PydanticCustomError("name", "The name must be printable: it stands in lists and in the audit.")
    return name


def _one_of(kind: str, known: Callable[[], tuple[str, ...]]) -> Callable[[str], str]:
    def check(name: str) -> str:
        if name not in known():
            raise PydanticCustomError("unknown", f"There is no such {kind}. Known are: {', '.join(known())}.")
        return name

    return check


def _describe_choices(known: Callable[[], tuple[str, ...]]) -> Callable[[dict[str, Any]], None]:
    return lambda schema: schema.update(enum=list(known()))


Tool = Annotated[
    str,
    AfterValidator(_one_of("tool", list_tool_names)),
    Field(json_schema_extra=_describe_choices(list_tool_names)),
]


def list_profiles() -> tuple[str, ...]:
    return tuple(PROFILES)


Profile = Annotated[
    str,
    AfterValidator(_one_of("profile", list_profiles)),
    Field(json_schema_extra=_describe_choices(list_profiles)),
]
Preset = Annotated[
    str,
    AfterValidator(_one_of("preset", list_presets)),
    Field(json_schema_extra=_describe_choices(list_presets)),
]


class TokenRequest(Parameters):
    """The body of `POST wap/tokens`."""

    name: Annotated[str, AfterValidator(_check_printable)] = Field(
        min_length=1,
        max_length=100,
        description="Who will hold it; the audit's name for the agent. Several tokens may have the same name.",
    )
    tools: list[Tool] | None = Field(
        None, min_length=1, max_length=1000, description="The only tools it opens. Absent: all."
    )
    profile: Profile | None = Field(
        None, description="Instead of tools: those that only read, that edit files or notebooks, or all."
    )
    preset: Preset | None = Field(None, description="A preset that binds it besides the server's policy.")
    policy: dict[str, Any] | None = Field(
        None, description="A policy, as in a policy file, that binds it besides the server's; it can only narrow."
    )
    expires_in: Annotated[int, Field(ge=1, le=int(MAX_LIFETIME.total_seconds())), INTEGER] | None = Field(
        None, description="Seconds from now. Default 7 days, at most 366."
    )
    expires_at: AwareDatetime | None = Field(None, strict=False, description="Instead of expiresIn.")
    limits: RateLimits = Field(RateLimits(), description="How much it may do.")

    def to_spec(self) -> TokenSpec:
        """Return the token to mint. Takes a while: the policy's patterns are compiled to check them."""
        if self.policy is not None:
            (policy,) = build_policy_layers(self.name, None, json.dumps(self.policy))
            if policy.broken is not None:
                raise InvalidArgument(f"policy: {policy.broken}")
        if self.tools is not None and self.profile is not None:
            raise InvalidArgument("profile: The field goes without tools.", hint="Name the tools, or a profile.")
        tools = None if self.tools is None else tuple(dict.fromkeys(self.tools))
        if self.profile is not None and self.profile != ALL_TOOLS:
            tools = list_profile_names(self.profile)
        return TokenSpec(
            **{"name": self.name, "tools": tools, "preset": self.preset, "policy": self.policy},
            limits=self.limits,
            expires_at=self._expiry(datetime.now(timezone.utc)),
        )

    def _expiry(self, now: datetime) -> datetime:
        if self.expires_at is None:
            return now + (DEFAULT_LIFETIME if self.expires_in is None else timedelta(seconds=self.expires_in))
        if self.expires_in is not None:
            raise InvalidArgument("expiresAt: expiresIn says it already.", hint="Send one of them.")
        if not now < self.expires_at <= now + MAX_LIFETIME:
            raise InvalidArgument("expiresAt: It must be in the future, within 366 days.")
        return self.expires_at
