"""The sender of a message: its caller, and the authorizer and rate limits of the server it came through."""

from __future__ import annotations

import unicodedata
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from wap_kernel.model.caller import Caller
from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS
from wap_kernel.model.operations import Effect, Operation


class Requester(Protocol):
    """The sender of a message."""

    @property
    def credential(self) -> str:
        """The credential that the limits of sessions and streams count by."""

    @property
    def profile(self) -> str | None:
        """The profile of tools that the client chose with the server's address; None for all tools."""

    def caller(self, client: str | None) -> Caller:
        """Return the caller; `client`, the client's own name, is the agent where no better name is known."""

    async def authorize(self, effect: Effect) -> None:
        """Ask the server's authorizer; raise PermissionDenied."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Count an operation while it is performed; raise RateLimited."""


class LocalRequester:
    """The user who started this process, through a client at its standard input."""

    def __init__(self, session: str, profile: str | None = None) -> None:
        self._session = session
        self._profile = profile

    @property
    def credential(self) -> str:
        return self._session

    @property
    def profile(self) -> str | None:
        return self._profile

    def caller(self, client: str | None) -> Caller:
        return Caller(agent=client, session=self._session)

    async def authorize(self, effect: Effect) -> None:
        """Allow everything: the folder is the user's own, and only policy binds them."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def clean_name(text: str) -> str | None:
    """Return a claimed name without control and format characters, which would forge lines in logs and cards."""
    return "".join(c for c in text if unicodedata.category(c)[0] != "C")[:MAX_CLAIM_CHARACTERS] or None
