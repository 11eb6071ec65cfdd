"""The extension application: open the workspace that the server serves, and add the routes. Wiring only."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, CaselessStrEnum, Dict, Float, Integer, List, TraitError, Unicode, validate

from wap_kernel.model.caller import Scope
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.operations import Operation
from wap_kernel.model.package import SERVER_PID, __version__
from wap_kernel.model.paths import Access
from wap_kernel.model.results import Limits
from wap_kernel.model.run import RunStatus
from wap_kernel.policy import presets
from wap_kernel.providers import selection

from .activity import ActivityRecorder
from .contents_saves import attach_save_gate
from .notifications import FilesNotification, Notifications, RunNotification, warn_of_approval
from .server_workspace import open_server_workspace

if TYPE_CHECKING:
    import asyncio
    from datetime import datetime

    from jupyter_server.serverapp import ServerApp

    from wap_kernel.dialects.mcp.http.sessions import McpSessions
    from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
    from wap_kernel.dialects.mcp.tools import ErrorForm
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.caller import CallContext, Caller
    from wap_kernel.model.run import Run
    from wap_kernel.runs.runner import Runner

    from .tokens.revocation import RevocationWatch
    from .tokens.store import AgentTokenStore

_DEFAULTS = Limits()


class WapExtension(ExtensionApp):
    """WAP 1.0 for agents, in the folder that this Jupyter server serves."""

    name = "wap"
    version = __version__
    description = __doc__
    load_other_extensions = True

    max_file_size = Integer(
        _DEFAULTS.max_file_size,
        min=1,
        help="""The largest file, in bytes, that readFile returns whole. A larger file is refused with a hint to read a
        range of lines; a range is truncated at this size.""",
    ).tag(config=True)

    max_directory_entries = Integer(
        _DEFAULTS.max_directory_entries,
        min=1,
        help="""The number of entries that exploreFiles returns at most; totalFound still counts all of them.""",
    ).tag(config=True)

    max_search_results = Integer(
        _DEFAULTS.max_search_results,
        min=1,
        help="""The number of matches that searchFiles returns at most; totalMatches still counts all of them.""",
    ).tag(config=True)

    max_output_size = Integer(
        _DEFAULTS.max_output_size,
        min=1,
        help="""The bytes of output that executeCommand returns, stdout and stderr together. Longer output is truncated
        in the middle.""",
    ).tag(config=True)

    max_write_size = Integer(
        _DEFAULTS.max_write_size,
        min=1,
        help="""The largest file, in bytes, that one writeFile or modifyFile may write. The body of a request is limited
        to 32 MiB in any case.""",
    ).tag(config=True)

    default_timeout_ms = Integer(
        _DEFAULTS.default_timeout_ms,
        min=1,
        help="""The timeout of a command, in milliseconds, when the caller names none.""",
    ).tag(config=True)

    max_timeout_ms = Integer(
        _DEFAULTS.max_timeout_ms,
        min=1,
        help="""The longest timeout, in milliseconds, that a caller may set for a command; longer ones are reduced.""",
    ).tag(config=True)

    preset = CaselessStrEnum(
        list(presets.PRESETS),
        default_value=presets.DEFAULT,
        help="""The policy of the server to begin with: restrictive (read small files, no commands), standard (read and
        write, well-known commands, ask for the others, no network) or permissive (everything that a sandbox
        confines). Further layers of policy can only narrow it.""",
    ).tag(config=True)

    policy = Dict(
        help="""Rules that replace those of the preset, in the form of a policy file, e.g.
        {"filesystem": {"deniedPaths": ["solutions/**"]}}. See docs/policy.md.""",
    ).tag(config=True)

    provider = CaselessStrEnum(
        list(selection.NAMES),
        default_value=selection.AUTO,
        help="""The provider that runs commands: bubblewrap and gvisor confine them, local does not. auto chooses
        bubblewrap where it works, else local. A provider that is chosen by name and cannot start refuses every
        command. `wap doctor` shows which providers work.""",
    ).tag(config=True)

    allow_unconfined = Bool(
        False,
        help="""Whether agents with a token may run commands that nothing confines (the provider local).""",
    ).tag(config=True)

    undo = Bool(
        True,
        help="""Whether runs can be reverted. What a change replaces is stored in either case, because a restart after
        a crash needs it to complete or take back a change; retention removes it.""",
    ).tag(config=True)

    git = Dict(
        help="""The git remotes that the workspace may reach, and the credential for them, which never enters the
        workspace, e.g.
        {"remotes": ["https://github.com/ada/*"], "githubApp": {"id": "1", "keyFile": "/etc/jupyter/app.pem"}}.
        By default no remote is reachable. See docs/git.md.""",
    ).tag(config=True)

    state_dir = Unicode(
        "",
        help="""The folder for the audit and other state of this workspace (created with mode 0700, unreadable to every
        tool). By default a folder of its own in Jupyter's data folder.""",
    ).tag(config=True)

    mcp_tools = List(
        Unicode(),
        help="""The tools that wap/mcp offers to MCP clients, e.g. ["readFile", "listFiles", "searchFiles"]; by default
        all of them. Resources are listed only with listFiles and read only with readFile. The scope of an agent token
        narrows the tools further.""",
    ).tag(config=True)

    @validate("mcp_tools")
    def _check_tool_names(self, proposal: Any) -> list[str]:
        names: list[str] = proposal["value"]
        if names:
            from wap_kernel.dialects.coding_environment.tools import check_tool_names

            try:
                check_tool_names(names)
            except WapError as error:
                raise TraitError(error.text) from None
        return names

    mcp_wait = Float(
        0.0,
        min=0.0,
        help="""The seconds that an MCP tool call waits for an approval, unless the call itself sets them. With 0 the
        answer names the run to look at later.""",
    ).tag(config=True)

    mcp_errors = CaselessStrEnum(
        ["result", "rpc"],
        default_value="result",
        help="""The form of a tool's error over MCP: result (a result with isError, which the model sees) or rpc (a
        JSON-RPC error, as the catalog of the Coding Environment has it). A call chooses for itself with "wap/errors" in
        its _meta.""",
    ).tag(config=True)

    workspace: Workspace | None = None
    runner: Runner | None = None
    mcp: McpSessions | None = None
    tokens: AgentTokenStore | None = None
    _revocations: RevocationWatch | None = None
    _activity: ActivityRecorder | None = None
    notifications: Notifications
    _detach_save_gate: Callable[[], None] | None = None
    _changes: ResourceChanges | None = None
    """The changes that MCP clients subscribe to, once the MCP server runs."""
    unavailable = ""
    """The error text for callers while there is no workspace."""

    def initialize_settings(self) -> None:
        server = self._server()
        loop = cast("asyncio.AbstractEventLoop", cast(Any, server.io_loop).asyncio_loop)
        self.notifications = Notifications(cast(Any, server.event_logger), loop, self._redact)
        self.workspace = self._open_workspace()
        if self.workspace is None:
            self.log.warning("wap answers every request with PROVIDER_UNAVAILABLE: %s", self.unavailable)
        else:
            # Later: an extension that loads after this one may replace the contents manager, as jupytext does.
            loop.call_soon(self._attach_save_gate, self.workspace)
            self.runner = self._open_runner(self.workspace)
            try:
                self.tokens = self._open_tokens(self.workspace, self.runner)
            except WapError as error:  # without agent tokens, agents would need the server's own token
                self.log.error("wap cannot open the agent tokens: %s", error.text)
            os.environ[SERVER_PID] = str(os.getpid())  # for the kernels that this server starts
            self._activity = ActivityRecorder(loop, self.current_activity, self._record_activity)
            self.log.info("wap serves %s", self.workspace.root)

    def initialize_handlers(self) -> None:
        # Imported here: without a workspace the dialects need not load.
        if self.workspace is None:
            from .handlers.base import NotFoundHandler

            self.handlers.append((r"/wap(?:/.*)?", NotFoundHandler))
        else:
            from .handlers.routes import ROUTES

            self.handlers.extend(ROUTES)

    def current_activity(self) -> dict[str, Any] | None:
        """Return the running commands and runs and the approvals that wait: they keep a server from being culled.

        An approval waits for a bounded time, see `APPROVAL_SECONDS`.
        """
        if self.workspace is None or self.runner is None:
            return None
        runner = self.runner
        found = {"commands": self.workspace.running, "runs": runner.running, "approvals": runner.waiting}
        return found if any(found.values()) else None

    def _record_activity(self, moment: datetime) -> None:
        # The hub reads the newest of these times, and so does GET api/status.
        self._server().web_app.settings["last_activity_times"][self.name] = moment

    async def stop_extension(self) -> None:
        mcp, self.mcp = self.mcp, None
        await self._close(mcp)
        if self._activity is not None:
            self._activity.close()
            self._activity = None
        revocations, self._revocations = self._revocations, None
        await self._close(revocations)
        runner, self.runner = self.runner, None
        workspace, self.workspace = self.workspace, None
        if workspace is not None:
            self.unavailable = "The server is shutting down."
        await self._close(runner)
        await self._close(workspace)
        if self._detach_save_gate is not None:
            self._detach_save_gate()
            self._detach_save_gate = None
        tokens, self.tokens = self.tokens, None
        await self._close(tokens)

    async def _close(self, part: McpSessions | RevocationWatch | Runner | Workspace | AgentTokenStore | None) -> None:
        """Close one part. An error is logged, so that the other parts close and the server stops."""
        try:
            if part is not None:
                await part.close()
        except Exception:
            self.log.exception("wap: closing %s failed", type(part).__name__)

    def _attach_save_gate(self, workspace: Workspace) -> None:
        if self.workspace is workspace:  # the extension has not been stopped meanwhile
            self._detach_save_gate = attach_save_gate(self._server().contents_manager, workspace.save_gate)

    def _open_workspace(self) -> Workspace | None:
        try:
            return open_server_workspace(self, self._server(), self._announce_files)
        except ProviderUnavailable as error:
            self.unavailable = error.text
            return None

    def _open_runner(self, workspace: Workspace) -> Runner:
        from wap_kernel.dialects.registry import open_runner  # loads the engine, which not every server needs

        return open_runner(workspace, admission=self._admit, changed=self._announce_run)

    def open_mcp(self) -> McpSessions:
        """Return the sessions of MCP clients; the first request opens the MCP server."""
        if self.mcp is None:
            from wap_kernel.dialects.mcp.http.sessions import McpSessions
            from wap_kernel.dialects.mcp.server import McpServer
            from wap_kernel.dialects.mcp.subscriptions import ResourceChanges

            if self.runner is None:
                raise ProviderUnavailable(self.unavailable)
            self._changes = ResourceChanges()
            server = McpServer(
                self.runner,
                self._changes,
                only=self.mcp_tools or None,
                wait=self.mcp_wait,
                errors=cast("ErrorForm", self.mcp_errors),
            )
            self.mcp = McpSessions(server)
        return self.mcp

    @asynccontextmanager
    async def _admit(self, caller: Caller, operation: Operation) -> AsyncIterator[None]:
        """Count the operations of an agent's runs like those of its calls."""
        if caller.token is None:
            yield
            return
        from .handlers.base import RATE_LIMITER

        if self.tokens is None:
            raise ProviderUnavailable("The agent tokens of this server are not available.")
        token = (await self.tokens.get_unrevoked(caller.token)).model_copy(update={"scope": caller.scope or Scope()})
        async with self.settings[RATE_LIMITER].admit(token, operation):
            yield

    def _redact(self, text: str) -> str:
        return text if self.workspace is None else self.workspace.redactor.mask_known(text)

    def _announce_run(self, run: Run) -> None:
        self.notifications.announce(RunNotification(run.id, run.status.value, run.caller.agent))
        if run.status is RunStatus.AWAITING_APPROVAL and (run.caller.agent or run.caller.token):
            warn_of_approval(self.log, run.id, self._redact(run.caller.agent or run.caller.token or ""))

    def _announce_files(self, operation: Operation, caller: Caller, context: CallContext) -> None:
        paths = tuple(access.path for access in operation.path_accesses() if access.access is Access.WRITE)
        self.notifications.announce(FilesNotification(paths, context.run, caller.agent))
        if self._changes is not None:
            self._changes.announce(operation)

    def _open_tokens(self, workspace: Workspace, runner: Runner) -> AgentTokenStore:
        from .handlers.base import RATE_LIMITER, REVOCATIONS, TOKENS
        from .tokens.rate_limits import RateLimiter
        from .tokens.revocation import RevocationWatch
        from .tokens.store import AgentTokenStore

        tokens = AgentTokenStore(workspace.state_dir, workspace.id, self.log)
        revocations = self._revocations = RevocationWatch(tokens, runner, self.log)
        limiter = RateLimiter(tokens, workspace.measure_copy, admitted=revocations.note_work)
        self.settings.update({TOKENS: tokens, RATE_LIMITER: limiter, REVOCATIONS: revocations})
        return tokens

    def _server(self) -> ServerApp:
        assert self.serverapp is not None
        return self.serverapp
