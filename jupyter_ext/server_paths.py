"""Where the files of a Jupyter server are: what it serves, what gives it away, what it obeys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_server.services.contents.filemanager import FileContentsManager

if TYPE_CHECKING:
    from jupyter_server.extension.application import ExtensionApp
    from jupyter_server.serverapp import ServerApp


def root(server: ServerApp) -> str | None:
    """The folder that it serves; None where its files are in none.

    The contents manager's own folders decide: `preferred_dir` is an API path below its `root_dir`.
    """
    manager = server.contents_manager
    if not isinstance(manager, FileContentsManager):
        return None
    return os.path.abspath(os.path.join(manager.root_dir, *manager.preferred_dir.split("/")))


def secrets(server: ServerApp) -> tuple[str, ...]:
    """Files that would let a reader pose as the server or as its user. They may lie anywhere."""
    # Without a key file of its own, the key stands in the certificate's file.
    key = server.keyfile or server.certfile
    token = os.environ.get("JUPYTER_TOKEN_FILE", "")
    return _absolute(server.runtime_dir, server.cookie_secret_file, key, token)


def settings_files(server: ServerApp, extension: ExtensionApp) -> tuple[str, ...]:
    """What the server obeys when it starts again."""
    named = (server.config_dir, server.data_dir, server.certfile, server.client_ca, server.config_file)
    return _absolute(*named, *server.loaded_config_files, *extension.loaded_config_files)


def _absolute(*paths: str) -> tuple[str, ...]:
    """Jupyter takes relative paths too; an empty one means that there is none."""
    return tuple(os.path.abspath(path) for path in paths if path)
