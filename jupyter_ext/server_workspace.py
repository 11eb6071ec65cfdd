"""Open the workspace of a Jupyter server with the settings of the extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.results import Limits
from wap_kernel.policy import presets

from . import server_paths

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.caller import CallContext, Caller
    from wap_kernel.model.operations import Operation

    from .app import WapExtension


def open_server_workspace(
    app: WapExtension, server: ServerApp, changed: Callable[[Operation, Caller, CallContext], None]
) -> Workspace:
    """Open the folder that the server serves; raise ProviderUnavailable with the text for callers."""
    root = server_paths.find_root(server)
    if root is None:
        raise ProviderUnavailable(
            f"The contents manager of this server ({type(server.contents_manager).__name__}) does not keep its "
            "files in a local folder. wap works with FileContentsManager and its subclasses."
        )
    # Imported here: a server without a local folder need not load the engine.
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.git.settings import parse_git_settings
    from wap_kernel.policy.parse import merge_policy

    try:
        return Workspace(
            root,
            policy=merge_policy(presets.load_preset(app.preset), app.policy),
            provider=app.provider,
            allow_unconfined=app.allow_unconfined,
            state_dir=app.state_dir or None,
            limits=Limits(**{name: getattr(app, name) for name in Limits.model_fields}),
            hidden=server_paths.list_secret_files(server),
            read_only=server_paths.list_settings_files(server, app),
            undo=app.undo,
            git=parse_git_settings(app.git),
            changed=changed,
            log=app.log,
        )
    except WapError as error:
        raise ProviderUnavailable(error.text) from error
    except OSError as error:
        app.log.error("wap cannot open its workspace: %s", error)
        raise ProviderUnavailable(
            f"The workspace cannot be opened ({type(error).__name__}). The server's log says more."
        ) from error
