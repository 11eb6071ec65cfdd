"""The extension application: wiring only. It opens the workspace that the server's settings name and adds routes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, CaselessStrEnum, Dict, Float, Integer, List, TraitError, Unicode, validate

from wap_kernel.dialects.mcp.http.lazy_server import Hosted
from wap_kernel.model.environment import SERVER_PID
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.operations import Operation
from wap_kernel.model.path_access import Access
from wap_kernel.model.results import Limits
from wap_kernel.model.version import __version__
from wap_kernel.policy import presets
from wap_kernel.providers import selection

from . import server_paths
from .notifications import FilesChanged, Notifications, RunChanged

if TYPE_CHECKING:
    import asyncio

    from jupyter_server.serverapp import ServerApp

    from wap_kernel.dialects.mcp.http.sessions import Sessions
    from wap_kernel.dialects.mcp.subscriptions import Changes
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.call_context import CallContext
    from wap_kernel.model.caller import Caller
    from wap_kernel.model.run import Run
    from wap_kernel.runs.runner import Runner

    from .tokens.store import AgentTokens

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
        help="""The largest file, in bytes, that readFile returns whole. A larger one is refused with a hint to ask for
        a range of lines; a range is cut at this size.""",
    ).tag(config=True)

    max_directory_entries = Integer(
        _DEFAULTS.max_directory_entries,
        min=1,
        help="""How many entries exploreFiles returns at most. It still counts all of them (totalFound).""",
    ).tag(config=True)

    max_search_results = Integer(
        _DEFAULTS.max_search_results,
        min=1,
        help="""How many matches searchFiles returns at most. It still counts all of them (totalMatches).""",
    ).tag(config=True)

    max_output_size = Integer(
        _DEFAULTS.max_output_size,
        min=1,
        help="""How many bytes of output executeCommand returns, stdout and stderr together. Of longer output the
        beginning and the end are kept.""",
    ).tag(config=True)

    max_write_size = Integer(
        _DEFAULTS.max_write_size,
        min=1,
        help="""The largest content, in bytes, that one writeFile or modifyFile may leave in a file. A request's body is
        limited to 32 MiB in any case.""",
    ).tag(config=True)

    default_timeout_ms = Integer(
        _DEFAULTS.default_timeout_ms,
        min=1,
        help="""After how many milliseconds a command is ended when the caller names no timeout.""",
    ).tag(config=True)

    max_timeout_ms = Integer(
        _DEFAULTS.max_timeout_ms,
        min=1,
        help="""The longest timeout, in milliseconds, that a caller may give to a command; longer ones are cut.""",
    ).tag(config=True)

    preset = CaselessStrEnum(
        list(presets.PRESETS),
        default_value=presets.DEFAULT,
        help="""What agents may do unless something stricter is said elsewhere: restrictive (read small files, no
        commands), standard (read and write, well-known commands, ask for the others, no network) or permissive
        (everything that a sandbox confines).""",
    ).tag(config=True)

    policy = Dict(
        help="""What differs from the preset, in the form of a policy file, e.g.
        {"filesystem": {"deniedPaths": ["solutions/**"]}}. See docs/policy.md.""",
    ).tag(config=True)

    provider = CaselessStrEnum(
        list(selection.NAMES),
        default_value=selection.AUTO,
        help="""Where commands run: bubblewrap or gvisor confine them, local does not. auto takes bubblewrap where it
        works, else local. One that is named and cannot start refuses every command. `wap doctor` tells what works.""",
    ).tag(config=True)

    allow_unconfined = Bool(
        False,
        help="""Whether an agent token may run commands where nothing confines them (the provider local).""",
    ).tag(config=True)

    undo = Bool(
        True,
        help="""Whether what runs change is kept, so that a run can be undone. Around a command that takes a walk over
        the workspace; see docs/undo.md for what is kept and what is not.""",
    ).tag(config=True)

    git = Dict(
        help="""The git remotes that may be reached, and the credential for them, which nobody in the workspace sees,
        e.g. {"remotes": ["https://github.com/ada/*"], "githubApp": {"id": "1", "keyFile": "/etc/jupyter/app.pem"}}.
        Empty: no remote. See docs/git.md.""",
    ).tag(config=True)

    state_dir = Unicode(
        "",
        help="""Where the audit and other state of this workspace is kept (created with mode 0700, unreadable to every
        tool). Empty: a folder of its own in Jupyter's data folder.""",
    ).tag(config=True)

    mcp_tools = List(
        Unicode(),
        help="""The tools that MCP clients are offered at wap/mcp, e.g. ["readFile", "listFiles", "searchFiles"]. Empty:
        all of them. Files are offered as resources as far as listFiles and readFile are. An agent token's scope
        narrows them further.""",
    ).tag(config=True)

    @validate("mcp_tools")
    def _known_tools(self, proposal: Any) -> list[str]:
        names: list[str] = proposal["value"]
        if names:
            from wap_kernel.dialects.coding_environment.tools import chosen

            try:
                chosen(names)
            except WapError as error:
                raise TraitError(error.text) from None
        return names

    mcp_wait = Float(
        0.0,
        min=0.0,
        help="""How many seconds an MCP tool call waits for a person to agree, where it does not say so itself. Without
        waiting the client is told which run to look at later.""",
    ).tag(config=True)

    workspace: Workspace | None = None
    runner: Runner | None = None
    mcp: Hosted
    tokens: AgentTokens | None = None
    notifications: Notifications
    _changes: Changes | None = None
    """For the subscriptions of MCP clients."""
    unavailable = ""
    """Why there is no workspace, for callers to read."""

    def initialize_settings(self) -> None:
        server = self._server()
        loop = cast("asyncio.AbstractEventLoop", cast(Any, server.io_loop).asyncio_loop)
        self.notifications = Notifications(cast(Any, server.event_logger), loop, self._without_credentials)
        self.mcp = Hosted(self._open_mcp)
        self.workspace = self._open_workspace()
        try:
            self.tokens = self._open_tokens()
        except WapError as error:  # without tokens agents would be sent to the server's own
            self.log.error("wap: agent tokens cannot be used: %s", error.text)
        if self.workspace is None:
            self.log.warning("wap answers every request with PROVIDER_UNAVAILABLE: %s", self.unavailable)
        else:
            self.runner = self._open_runner(self.workspace)
            os.environ[SERVER_PID] = str(os.getpid())  # for the kernels that this server starts
            self.log.info("wap serves %s", self.workspace.root)

    def initialize_handlers(self) -> None:
        # Loaded here: where there is no workspace, there is no use for the dialects either.
        if self.workspace is None:
            from .handlers.missing import MissingHandler

            self.handlers.append((r"/wap(?:/.*)?", MissingHandler))
        else:
            from .handlers.routes import ROUTES

            self.handlers.extend(ROUTES)

    def current_activity(self) -> dict[str, Any] | None:
        """Running commands keep a server from being culled as idle."""
        commands = self.workspace.running if self.workspace is not None else 0
        runs = self.runner.running if self.runner is not None else 0
        return {"commands": commands, "runs": runs} if commands or runs else None

    async def stop_extension(self) -> None:
        await self._close(self.mcp)
        runner, self.runner = self.runner, None
        workspace, self.workspace = self.workspace, None
        if workspace is not None:
            self.unavailable = "The server is shutting down."
        await self._close(runner)
        await self._close(workspace)
        tokens, self.tokens = self.tokens, None
        await self._close(tokens)

    async def _close(self, part: Hosted | Runner | Workspace | AgentTokens | None) -> None:
        """What goes wrong keeps neither the others from closing nor the server from stopping."""
        try:
            if part is not None:
                await part.close()
        except Exception:
            self.log.exception("wap: %s did not close in order", type(part).__name__)

    def _open_workspace(self) -> Workspace | None:
        server = self._server()
        root = server_paths.root(server)
        if root is None:
            self.unavailable = (
                f"The contents manager of this server ({type(server.contents_manager).__name__}) does not keep its "
                "files in a local folder. wap works with FileContentsManager and its subclasses."
            )
            return None
        from wap_kernel.engine.workspace import Workspace
        from wap_kernel.git.configuring import git_settings
        from wap_kernel.policy.parse import merge

        limits = Limits(**{name: getattr(self, name) for name in Limits.model_fields})
        try:
            return Workspace(
                root,
                policy=merge(presets.load(self.preset), self.policy),
                provider=self.provider,
                allow_unconfined=self.allow_unconfined,
                state_dir=self.state_dir or None,
                limits=limits,
                hidden=server_paths.secrets(server),
                read_only=server_paths.settings_files(server, self),
                undo=self.undo,
                git=git_settings(self.git),
                changed=self._announce_files,
                log=self.log,
            )
        except WapError as error:
            self.unavailable = error.text
        except OSError as error:
            self.log.error("wap cannot open its workspace: %s", error)
            self.unavailable = f"The workspace cannot be opened ({type(error).__name__}). The server's log says more."
        return None

    def _open_runner(self, workspace: Workspace) -> Runner:
        from wap_kernel.dialects.registry import open_runner  # loads the engine, which not every server needs

        return open_runner(workspace, admission=self._admit, changed=self._announce_run)

    def _open_mcp(self) -> Sessions:
        """With the first request: it takes most of a second to import."""
        from wap_kernel.dialects.mcp.http.sessions import Sessions
        from wap_kernel.dialects.mcp.server import build
        from wap_kernel.dialects.mcp.subscriptions import Changes

        from .handlers.mcp import asker_of

        if self.runner is None:
            raise ProviderUnavailable(self.unavailable)
        self._changes = Changes()
        server = build(self.runner, asker_of, self._changes, only=self.mcp_tools or None, wait=self.mcp_wait)
        return Sessions(server)

    @asynccontextmanager
    async def _admit(self, caller: Caller, operation: Operation) -> AsyncIterator[None]:
        """Counts the operations of an agent's runs as those of its calls."""
        if caller.token is None:
            yield
            return
        from .handlers.base import RATES

        if self.tokens is None:
            raise ProviderUnavailable("There are no agent tokens here now.")
        async with self.settings[RATES].admit(await self.tokens.known(caller.token), operation):
            yield

    def _without_credentials(self, text: str) -> str:
        return text if self.workspace is None else self.workspace.redactor.without_known(text)

    def _announce_run(self, run: Run) -> None:
        self.notifications.announce(RunChanged(run.id, run.status.value, run.caller.agent))

    def _announce_files(self, operation: Operation, caller: Caller, context: CallContext) -> None:
        paths = tuple(touch.path for touch in operation.path_accesses() if touch.access is Access.WRITE)
        self.notifications.announce(FilesChanged(paths, context.run, caller.agent))
        if self._changes is not None:
            self._changes.announce(operation)

    def _open_tokens(self) -> AgentTokens | None:
        if self.workspace is None:
            return None
        from .handlers.base import RATES, TOKENS
        from .tokens.rate_limits import Rates
        from .tokens.store import AgentTokens

        tokens = AgentTokens(self.workspace.state_dir, self.workspace.id, self.log)
        self.settings.update({TOKENS: tokens, RATES: Rates(tokens)})
        return tokens

    def _server(self) -> ServerApp:
        assert self.serverapp is not None
        return self.serverapp
