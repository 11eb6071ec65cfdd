"""The base of every WAP handler: authenticate and authorize the caller, then call a method.

`prepare` makes every check that can refuse a request before a byte of the body is read: host, authentication, XSRF and
origin as Jupyter checks them, the scope of the agent token, the declared size, and whether there is a workspace.
"""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from functools import wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth import User
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import (
    MethodNotAllowed,
    NotFound,
    PermissionDenied,
    ProviderUnavailable,
    Unauthenticated,
    WapError,
)
from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS, MAX_PATH_BYTES
from wap_kernel.model.operations import DescribeWorkspace, Effect

from ..identity import name_person
from ..tokens.bearer import PresentedToken, find_token
from . import errors
from .errors import ErrorResponses

if TYPE_CHECKING:
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.runs.runner import Runner

    from ..app import WapExtension
    from ..tokens.models import AgentToken
    from ..tokens.store import AgentTokenStore

AUTH_RESOURCE = "wap"
TOKENS = "wap_tokens"
"""The application setting that holds the `AgentTokenStore`."""
RATE_LIMITER = "wap_rates"
"""The application setting that holds the `RateLimiter`."""
REVOCATIONS = "wap_revocations"
"""The application setting that holds the `RevocationWatch`."""
AGENT_HEADER = "X-Wap-Agent"
SESSION_HEADER = "X-Wap-Session"
NOTEBOOK_HEADER = "X-Wap-Notebook"
MAX_REDACTED_BYTES = 256 * 1024
"""Bytes of an answer that are searched for credentials once more, on the event loop."""

_Verb = Callable[..., Awaitable[None]]


def verb(method: _Verb) -> _Verb:
    """Mark an HTTP method of a handler.

    `prepare` has authenticated the caller by then; the attribute says so to Jupyter's own check of extension
    endpoints. A request that was refused while its body arrived has its answer already.
    """

    @wraps(method)
    async def wrapper(self: WapHandler, *args: str) -> None:
        self.is_read = True
        if not self.refused:
            await method(self, *args)

    setattr(wrapper, "__allow_unauthenticated", False)
    return wrapper


@web.stream_request_body
class WapHandler(ExtensionHandlerMixin, ErrorResponses):
    """A handler of one route. Subclasses name the methods they allow and implement them with `@verb`."""

    open_to_agents = False
    """True for a route that an agent token opens. A new route stays closed until its author opens it."""
    origin_hint = "See ServerApp.allow_origin, or send a token."
    agent: AgentToken | None = None
    """The agent token that the request carries; None when it came from a person."""

    @property
    def tokens(self) -> AgentTokenStore:
        store: AgentTokenStore | None = self.settings.get(TOKENS)
        if store is None:
            raise ProviderUnavailable("There is no workspace here, and so there are no agent tokens.")
        return store

    @property
    def workspace(self) -> Workspace:
        workspace = cast("WapExtension", self.extensionapp).workspace
        if workspace is None:
            raise ProviderUnavailable(cast("WapExtension", self.extensionapp).unavailable)
        return workspace

    @property
    def runner(self) -> Runner:
        runner = cast("WapExtension", self.extensionapp).runner
        if runner is None:
            raise ProviderUnavailable(cast("WapExtension", self.extensionapp).unavailable)
        return runner

    def write(self, chunk: str | bytes | dict[Any, Any]) -> None:
        """Redact credentials of the server in every answer, after the engine's own redaction.

        A large chunk is written as it is: the engine has redacted it.
        """
        workspace = cast("WapExtension", self.extensionapp).workspace
        is_small = isinstance(chunk, (str, bytes)) and len(chunk) <= MAX_REDACTED_BYTES
        if workspace is not None and is_small and not workspace.redactor.has_no_secrets:
            data = chunk.encode("utf-8") if isinstance(chunk, str) else bytes(chunk)
            text = data.decode("utf-8", "surrogateescape")
            clean = workspace.redactor.mask_known(text).encode("utf-8", "surrogateescape")
            # A declared length must stay right: blanks after JSON mean nothing.
            chunk = clean.ljust(len(data)) if "Content-Length" in self._headers else clean
        super().write(chunk)

    async def prepare(self) -> None:  # type: ignore[override]  # Jupyter declares more than it returns
        try:
            await self._admit()
        except WapError as error:
            self.refuse(error)

    async def _admit(self) -> None:
        if (presented := find_token(self.request)) is not None:
            await self._admit_agent(presented)
        else:
            await self._admit_person()
        if self.request.method == "OPTIONS":
            return
        # Jupyter lets strangers through to handlers unless allow_unauthenticated_access is off; WapHandler never does.
        if self.current_user is None:
            raise _not_authenticated()
        self.check_length()
        workspace = self.workspace
        if self.agent is not None:
            try:
                self.check_scope(self.agent)
            except PermissionDenied as error:
                workspace.audit_refusal(self.requested_action[:MAX_CLAIM_CHARACTERS], error, self.caller)
                raise

    async def _admit_person(self) -> None:
        try:
            await super().prepare()
        except web.HTTPError as error:
            raise self._translate(error) from error

    async def _admit_agent(self, presented: PresentedToken) -> None:
        """Authenticate an agent token instead of calling Jupyter's own authentication, never before it.

        A hub's authentication would send the token to the hub, and a valid cookie must not make up for a bad token.
        """
        self.check_host()
        self.current_user = self._jupyter_current_user = None
        self.agent = await self.tokens.verify(presented.token())
        # The person's username: the server's authorizer knows people, and an agent may do no more than its person.
        user = User(username=self.agent.created_by, name=self.agent.name, display_name=self.agent.name)
        self.current_user = self._jupyter_current_user = user
        self.set_cors_headers()

    async def verify_agent(self) -> None:
        """Raise Unauthenticated if the agent token of the request is no longer valid."""
        if (presented := find_token(self.request)) is not None:
            await self.tokens.verify(presented.token())

    @property
    def token_authenticated(self) -> bool:
        """Return whether a token came with the request; Jupyter then checks neither XSRF nor origin.

        No browser sends such a header by itself.
        """
        return self.agent is not None or super().token_authenticated

    @property
    def requested_action(self) -> str:
        """The action that the audit names when the request is refused."""
        return self.request.path.partition("/wap/")[2]

    def check_scope(self, agent: AgentToken) -> None:
        """Raise PermissionDenied for a route or tool that the agent's token does not open."""
        if not self.open_to_agents:
            raise PermissionDenied(
                "This needs a person.", hint="An agent token opens the tools of the workspace and nothing else."
            )

    def check_host(self) -> bool:
        """Raise PermissionDenied for a foreign Host header.

        Jupyter checks the host first of all and answers a bare 403, which would read as "not authenticated".
        """
        if super().check_host():
            return True
        self.current_user = self._jupyter_current_user = None
        raise PermissionDenied(
            "The Host header does not name this server.",
            hint="Set ServerApp.allow_remote_access or ServerApp.local_hostnames if it should.",
        )

    def _translate(self, error: web.HTTPError) -> WapError:
        """Translate a refusal by Jupyter: a stranger, a foreign origin (Jupyter answers 404), a missing XSRF token."""
        if error.status_code in (403, 404) and self.current_user is None:
            return _not_authenticated()
        if error.status_code == 404:
            return PermissionDenied("Requests from this origin are not allowed.", hint=self.origin_hint)
        return errors.from_exception(error)

    async def authorize(self, effect: Effect, resource: str = AUTH_RESOURCE) -> None:
        """Ask the server's authorizer about the caller; an agent counts as the person who minted its token.

        The rights of that person bind the agent, also when they change later. The authorizer must know people by their
        username for that. A hub's authorizer reads the hub's own user objects, which exist only during a request of
        the person; it approved all effects of the token's tools when the token was minted (`vouched`).
        """
        if self.agent is not None and self.agent.vouched:
            return
        allowed = self.authorizer.is_authorized(self, self.current_user, effect.value, resource)
        if isawaitable(allowed):  # Jupyter allows both
            allowed = await allowed
        if not allowed:
            raise PermissionDenied(f"The server's authorizer does not let you {effect.value} in the workspace.")

    @asynccontextmanager
    async def count_as_operation(self) -> AsyncIterator[None]:
        """Count the block as one operation of the agent: it is none, and costs as much."""
        if self.agent is None:
            yield
            return
        async with self.settings[RATE_LIMITER].admit(self.agent, DescribeWorkspace()):
            yield

    @property
    def caller(self) -> Caller:
        claims = {"session": self.claim_from(SESSION_HEADER), "notebook": self._claimed_notebook()}
        if (agent := self.agent) is None:
            return Caller(user=name_person(self.current_user), agent=self.claim_from(AGENT_HEADER), **claims)
        return agent.to_caller(**claims)

    def _claimed_notebook(self) -> str | None:
        """Return the notebook that the client claims to be; a kernel knows its absolute path."""
        path = self.claim_from(NOTEBOOK_HEADER, MAX_PATH_BYTES)
        if path is None:
            return None
        for root in self.workspace.names_of_root:
            path = path.removeprefix(f"{root}/")
        return path[-MAX_CLAIM_CHARACTERS:]

    def claim_from(self, header: str, limit: int = MAX_CLAIM_CHARACTERS) -> str | None:
        """Return the name that the client claims in `header`, without control characters."""
        value = self.request.headers.get(header)
        if not value:
            return None
        # HTTP says Latin-1, clients send UTF-8. Control and format characters would forge lines in logs and cards.
        text = value.encode("latin-1", "replace").decode("utf-8", "replace")
        return "".join(c for c in text if unicodedata.category(c)[0] != "C")[:limit] or None

    # ------------------------------------------------------------------ methods

    @verb
    async def get(self, *args: str) -> None:
        raise MethodNotAllowed(f"{self.request.method} is not allowed here.", allowed=list(self.allowed))

    head = post = put = patch = delete = get

    @allow_unauthenticated
    def options(self, *args: str) -> None:
        self.is_read = True
        if self.refused:
            return
        super().options(*args)
        methods = ", ".join((*self.allowed, "OPTIONS"))
        self.set_header("Allow", methods)
        self.set_header("Access-Control-Allow-Methods", methods)
        if "Access-Control-Allow-Headers" not in self.settings.get("headers", {}):
            own = f"{AGENT_HEADER}, {SESSION_HEADER}, {NOTEBOOK_HEADER}, idempotency-key, last-event-id".lower()
            self.set_header("Access-Control-Allow-Headers", f"accept, content-type, authorization, x-xsrftoken, {own}")
        self.set_status(204)

    def update_api_activity(self) -> None:
        # Jupyter's own method decodes the argument and raises on bad UTF-8, which would leave the request unanswered.
        is_authenticated = getattr(self, "_jupyter_current_user", None) is not None
        if is_authenticated and "no_track_activity" not in self.request.query_arguments:
            self.settings["api_last_activity"] = datetime.now(timezone.utc)


def _not_authenticated() -> Unauthenticated:
    return Unauthenticated(
        "Not authenticated.",
        hint="Send a header: 'Authorization: token <the server's>', or 'Authorization: Bearer <an agent's>' "
        "(`wap token create` makes one); or log in to Jupyter.",
    )


class NotFoundHandler(WapHandler):
    """Answer every other path below wap/ with an error as JSON instead of Jupyter's page."""

    open_to_agents = True

    @verb
    async def get(self) -> None:
        raise NotFound("There is nothing at this address.", hint="See wap/openapi.json.")

    head = post = put = patch = delete = get
