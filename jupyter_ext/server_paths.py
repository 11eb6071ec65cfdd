"""The paths of a Jupyter server: the folder it serves, its secret files, its settings files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_server.services.contents.filemanager import FileContentsManager

if TYPE_CHECKING:
    from jupyter_server.extension.application import ExtensionApp
    from jupyter_server.serverapp import ServerApp


def find_root(server: ServerApp) -> str | None:
    """Return the folder that the server serves; None where its contents are not in a local folder.

    The contents manager's own folders decide: `preferred_dir` is an API path below its `root_dir`.
    """
    manager = server.contents_manager
    if not isinstance(manager, FileContentsManager):
        return None
    return os.path.abspath(os.path.join(manager.root_dir, *manager.preferred_dir.split("/")))


def list_secret_files(server: ServerApp) -> tuple[str, ...]:
    """List the files that would let a reader pose as the server or as its user; they may lie anywhere."""
    # Without a key file, the key stands in the certificate's file.
    key = server.keyfile or server.certfile
    token = os.environ.get("JUPYTER_TOKEN_FILE", "")
    return _make_absolute(server.runtime_dir, server.cookie_secret_file, key, token)


def list_settings_files(server: ServerApp, extension: ExtensionApp) -> tuple[str, ...]:
    """List the files that configure the server when it starts again."""
    named = (server.config_dir, server.data_dir, server.certfile, server.client_ca, server.config_file)
    return _make_absolute(*named, *server.loaded_config_files, *extension.loaded_config_files)


def _make_absolute(*paths: str) -> tuple[str, ...]:
    """Make the paths absolute (Jupyter accepts relative ones) and drop empty ones."""
    return tuple(os.path.abspath(path) for path in paths if path)
