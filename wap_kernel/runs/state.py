"""The state folder: where the audit, leases and locks of one workspace live, shared by every process that serves it."""

from __future__ import annotations

import hashlib
import os


def default_state_dir(root: str) -> str:
    """`<jupyter data dir>/wap/<id of the root>`."""
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "wap", workspace_id(root))


def workspace_id(root: str) -> str:
    """The same folder has the same id in every process, however it was named."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]


def open_state_dir(path: str) -> str:
    """Make the folder if need be, closed to everybody else, and return its real path."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    os.chmod(path, 0o700)
    os.makedirs(os.path.join(path, "locks"), mode=0o700, exist_ok=True)
    return os.path.realpath(path)
