"""Who asks: the person whom Jupyter knows, the agent that works for them, and what the agent's token opens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from wap_kernel.model.policy import Layers


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scope(_Model):
    """What an agent token opens."""

    tools: frozenset[str] | None = None
    """The only tools it may use. None: all of them."""
    layers: Layers = ()
    """Further layers of policy (the token's preset, its own policy). The strictest wins, so they can only narrow."""

    def opens(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class Caller(_Model):
    """`user` is authenticated by Jupyter; `session` is only claimed, and so is `agent` where there is no token.

    With an agent token, `user` is the person who minted it and `agent` is the token's name.
    """

    user: str = "local"
    agent: str | None = None
    session: str | None = None
    token: str | None = None
    """The id of the agent token."""
    scope: Scope | None = None
    """None: a person, whom policy binds and nothing else."""
