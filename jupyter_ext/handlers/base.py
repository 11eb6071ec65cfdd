"""The base of every WAP handler: who may come in, what an error looks like, who is said to ask.

Everything that can refuse a request stands in `prepare`, before a byte of the body is taken: host, authentication,
XSRF and origin as Jupyter checks them, what an agent token opens, the announced size, and whether there is a workspace
at all.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from functools import wraps
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth import User
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import (
    InternalError,
    MethodNotAllowed,
    PermissionDenied,
    ProviderUnavailable,
    RateLimited,
    Unauthenticated,
    WapError,
)
from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS
from wap_kernel.model.operations import DescribeWorkspace, Effect

from ..tokens.bearer import Presented, presented
from . import errors
from .request_body import BodyReader

if TYPE_CHECKING:
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.runs.runner import Runner

    from ..app import WapExtension
    from ..tokens.store import AgentToken, AgentTokens

AUTH_RESOURCE = "wap"
TOKENS = "wap_tokens"
"""Where the application's settings hold the `AgentTokens`."""
RATES = "wap_rates"
"""And the `Rates`."""
AGENT_HEADER = "X-Wap-Agent"
SESSION_HEADER = "X-Wap-Session"
NET = 256 * 1024
"""Bytes of an answer that are looked through once more, on the event loop."""

_Verb = Callable[..., Awaitable[None]]


def verb(method: _Verb) -> _Verb:
    """Marks an HTTP method of a handler.

    `prepare` has authenticated the caller by then; the attribute says so to Jupyter's own check of extension
    endpoints. A request that was refused while its body came has its answer already.
    """

    @wraps(method)
    async def wrapper(self: WapHandler, *args: str) -> None:
        self.is_read = True
        if not self.refused:
            await method(self, *args)

    setattr(wrapper, "__allow_unauthenticated", False)
    return wrapper


@web.stream_request_body
class WapHandler(ExtensionHandlerMixin, BodyReader, APIHandler):
    """Subclasses name the methods they allow and implement them with `@verb`."""

    allowed: tuple[str, ...] = ()
    open_to_agents = False
    """Whether an agent token opens it. What nobody thought about stays closed."""
    origin_hint = "See ServerApp.allow_origin, or send a token."
    agent: AgentToken | None = None
    """The token that the request came with; None when it came from a person."""

    @property
    def tokens(self) -> AgentTokens:
        found: AgentTokens | None = self.settings.get(TOKENS)
        if found is None:
            raise ProviderUnavailable("There is no workspace here, and so there are no agent tokens.")
        return found

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
        """Whatever is told, by whatever route: a net for credentials of the server, below what the engine does. What is
        large has been through that."""
        workspace = cast("WapExtension", self.extensionapp).workspace
        is_looked_at = isinstance(chunk, (str, bytes)) and len(chunk) <= NET
        if workspace is not None and is_looked_at and not workspace.redactor.withholds_nothing:
            data = chunk.encode("utf-8") if isinstance(chunk, str) else bytes(chunk)
            text = data.decode("utf-8", "surrogateescape")
            clean = workspace.redactor.without_known(text).encode("utf-8", "surrogateescape")
            # A length that was announced is kept: blanks after JSON mean nothing.
            chunk = clean.ljust(len(data)) if "Content-Length" in self._headers else clean
        super().write(chunk)

    async def prepare(self) -> None:  # type: ignore[override]  # Jupyter declares more than it returns
        try:
            await self._admit()
        except WapError as error:
            self.refuse(error)

    async def _admit(self) -> None:
        if (shown := presented(self.request)) is not None:
            await self._admit_agent(shown)
        else:
            await self._admit_person()
        if self.request.method == "OPTIONS":
            return
        # Jupyter lets strangers through to handlers unless allow_unauthenticated_access is off; this one never does.
        if self.current_user is None:
            raise _stranger()
        self.check_length()
        workspace = self.workspace
        if self.agent is not None:
            try:
                self.check_scope(self.agent)
            except PermissionDenied as error:
                workspace.refused(self.asked[:MAX_CLAIM_CHARACTERS], error, self.caller)
                raise

    async def _admit_person(self) -> None:
        try:
            await super().prepare()
        except web.HTTPError as error:
            raise self._translate(error) from error

    async def _admit_agent(self, shown: Presented) -> None:
        """Instead of Jupyter's own authentication, never before it: a hub's would send the token to the hub, and a
        token that is no good must not be followed by a cookie that is."""
        self.check_host()
        self.current_user = self._jupyter_current_user = None
        self.agent = await self.tokens.verify(shown.token())
        # The person's username: a server's authorizer knows people, and an agent may do no more than who sent it.
        user = User(username=self.agent.created_by, name=self.agent.name, display_name=self.agent.name)
        self.current_user = self._jupyter_current_user = user
        self.set_cors_headers()

    @property
    def token_authenticated(self) -> bool:
        """Jupyter asks for neither XSRF nor origin then: no browser sends such a header by itself."""
        return self.agent is not None or super().token_authenticated

    @property
    def asked(self) -> str:
        """What was asked for, for the audit of refusals."""
        return self.request.path.partition("/wap/")[2]

    def check_scope(self, agent: AgentToken) -> None:
        """Refuse what the agent's token does not open."""
        if not self.open_to_agents:
            raise PermissionDenied(
                "This needs a person.", hint="An agent token opens the tools of the workspace and nothing else."
            )

    def check_host(self) -> bool:
        """Jupyter asks this first of all and answers a bare 403, which would read as "not authenticated"."""
        if super().check_host():
            return True
        self.current_user = self._jupyter_current_user = None
        raise PermissionDenied(
            "The Host header does not name this server.",
            hint="Set ServerApp.allow_remote_access or ServerApp.local_hostnames if it should.",
        )

    def _translate(self, error: web.HTTPError) -> WapError:
        """What Jupyter's checks mean: a stranger, a foreign origin (Jupyter says 404), a missing XSRF token."""
        if error.status_code in (403, 404) and self.current_user is None:
            return _stranger()
        if error.status_code == 404:
            return PermissionDenied("Requests from this origin are not allowed.", hint=self.origin_hint)
        return errors.from_exception(error)

    async def authorize(self, effect: Effect, resource: str = AUTH_RESOURCE) -> None:
        """Ask the server's authorizer; about an agent, as the person who minted its token.

        So the person's rights bind the agent, also when they change later. That needs an authorizer which knows people
        by their username. A hub's looks into the hub's own user objects, which exist only while a person is there; it
        was asked about all that the token can do when the token was minted (`vouched`).
        """
        if self.agent is not None and self.agent.vouched:
            return
        allowed = self.authorizer.is_authorized(self, self.current_user, effect.value, resource)
        if isawaitable(allowed):  # Jupyter allows both
            allowed = await allowed
        if not allowed:
            raise PermissionDenied(f"The server's authorizer does not let you {effect.value} in the workspace.")

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Around what is no operation and costs as much: of an agent it counts as one."""
        if self.agent is None:
            yield
            return
        async with self.settings[RATES].admit(self.agent, DescribeWorkspace()):
            yield

    @property
    def caller(self) -> Caller:
        session = self._claim(SESSION_HEADER)
        if (agent := self.agent) is None:
            return Caller(user=self.current_user.username, agent=self._claim(AGENT_HEADER), session=session)
        return Caller(user=agent.created_by, agent=agent.name, session=session, token=agent.id, scope=agent.scope)

    def _claim(self, header: str) -> str | None:
        value = self.request.headers.get(header)
        if not value:
            return None
        # HTTP says Latin-1, clients send UTF-8. Control and format characters would forge lines in logs and cards.
        text = value.encode("latin-1", "replace").decode("utf-8", "replace")
        return "".join(c for c in text if unicodedata.category(c)[0] != "C")[:MAX_CLAIM_CHARACTERS] or None

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
            own = f"{AGENT_HEADER}, {SESSION_HEADER}, idempotency-key, last-event-id".lower()
            self.set_header("Access-Control-Allow-Headers", f"accept, content-type, authorization, x-xsrftoken, {own}")
        self.set_status(204)

    # ------------------------------------------------------------------ errors

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        _, exception, _ = kwargs.get("exc_info") or (None, web.HTTPError(status_code), None)
        if not self.is_read:
            self.set_header("Connection", "close")  # Tornado will, and does not say so
        self.finish(self._error_body(errors.from_exception(exception)))

    def compute_etag(self) -> None:
        """None: every answer is made for one request, and hashing a megabyte would hold up the event loop."""

    def write_refusal(self, error: WapError) -> None:
        body = self._error_body(error)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", len(body))
        self.write(body)

    def _error_body(self, error: WapError) -> bytes:
        self.begin_error(error)
        return errors.body(error)

    def begin_error(self, error: WapError) -> None:
        self.set_status(errors.STATUS[error.code])
        if isinstance(error, MethodNotAllowed):
            self.set_header("Allow", ", ".join((*self.allowed, "OPTIONS")))
        if isinstance(error, RateLimited):
            self.set_header("Retry-After", math.ceil(error.details["retryAfterMs"] / 1000))
        if getattr(self, "_jupyter_current_user", None) is not None:
            self.set_cors_headers()  # Tornado has cleared them; who may read answers may read errors

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Bugs only: a refusal stands in the access log, and its text quotes the caller."""
        if value is not None and isinstance(errors.from_exception(value), InternalError):
            self.log.error("Error in %s %s\n%s", self.request.method, self.request.path, errors.describe(value))

    def update_api_activity(self) -> None:
        # Jupyter decodes the argument here and raises on bad UTF-8, which would leave the request without an answer.
        known = getattr(self, "_jupyter_current_user", None) is not None
        if known and "no_track_activity" not in self.request.query_arguments:
            self.settings["api_last_activity"] = datetime.now(timezone.utc)


def _stranger() -> Unauthenticated:
    return Unauthenticated(
        "Not authenticated.",
        hint="Send a header: 'Authorization: token <the server's>', or 'Authorization: Bearer <an agent's>' "
        "(`wap token create` makes one); or log in to Jupyter.",
    )
