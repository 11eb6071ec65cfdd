"""The caller of an operation (a person, their agent, the scope of its token), and where the call comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from wap_kernel.model.policy import Layers

OWNER = "owner"
"""The name of a person where the operating system has none, as in a container that runs under any number."""


@lru_cache(maxsize=1)
def name_os_user() -> str:
    """Return the name of the operating system's user that this process runs as.

    The environment is not asked: `LOGNAME` and `USER` are what the program before set them to.
    """
    try:
        import pwd  # not on Windows, where this package must import

        return pwd.getpwuid(os.getuid()).pw_name or OWNER
    except (ImportError, KeyError):
        return OWNER


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scope(_Model):
    """The tools and the policy that an agent token is limited to."""

    tools: frozenset[str] | None = None
    """The only tools that the agent may use. None: all of them."""
    layers: Layers = ()
    """Further layers of policy (the token's preset, its own policy). The strictest wins, so they can only narrow."""

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class Caller(_Model):
    """The person or the agent that an operation is performed for.

    With an agent token, `user` is the person who minted the token and `agent` is the token's name.
    """

    user: str = Field(default_factory=name_os_user)
    """The user whom Jupyter authenticated; the operating system's user where a credential names no person."""
    agent: str | None = None
    """The agent's name; only a claim where there is no token."""
    session: str | None = None
    """The session that the caller claims; from a notebook it is the id of the kernel."""
    notebook: str | None = None
    """The path of the notebook that the caller claims to be."""
    token: str | None = None
    """The id of the agent token."""
    scope: Scope | None = None
    """The token's scope. None: a person, whom only policy binds."""


class CallRecorder(Protocol):
    """The part of a single call's run that the engine uses."""

    def begin(self) -> None:
        """Store the run; called before every change."""

    def complete(self, result: Any) -> Any:
        """End the run, and return the result with the run's id."""

    def fail(self, error: Any) -> None:
        """End the run with an error."""


class NoRecorder:
    """A recorder for operations that have a run already, or none."""

    def begin(self) -> None: ...
    def complete(self, result: Any) -> Any:
        return result

    def fail(self, error: Any) -> None: ...


NO_RECORDER = NoRecorder()


@dataclass(frozen=True)
class CallContext:
    """The origin of an operation, as the audit records it."""

    dialect: str | None = None
    tool: str | None = None
    """The dialect's own name of the tool: `executeCommand`, `shell`."""
    run: str | None = None
    position: int = 0
    """The position in the run, from 0."""
    step: str | None = None
    """The operation's id in the run."""
    dry_run: bool = False
    """True if the operation acts on an overlay instead of the workspace."""
    recorder: CallRecorder = NO_RECORDER
    """The recorder of a single call; a run records its steps itself."""


NO_RUN = CallContext()
"""The context of an operation that belongs to no run."""
