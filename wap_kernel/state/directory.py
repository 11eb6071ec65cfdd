"""Open the state folder: every process that serves a workspace stores the audit, leases and locks there."""

from __future__ import annotations

import hashlib
import os

from wap_kernel.model.errors import NO_SPACE_ERRNOS, NoSpace, ProviderUnavailable, WapError


def default_state_dir(root: str) -> str:
    """Return `<jupyter data dir>/wap/<id of the root>`."""
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "wap", workspace_id(root))


def workspace_id(root: str) -> str:
    """Return the id of a root, which is the same in every process and for every name of the folder."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]


def open_state_dir(path: str) -> str:
    """Make the folder if need be, closed to all other users, and return its real path."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(path, 0o700)
        os.makedirs(os.path.join(path, "locks"), mode=0o700, exist_ok=True)
    except OSError as error:
        raise make_unusable_error(error) from error
    return os.path.realpath(path)


def open_lock(path: str) -> int:
    """Return a descriptor of a file of the state folder that exists to be locked."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise make_unusable_error(error) from error


def make_unusable_error(error: OSError) -> WapError:
    """Return a system error of the state folder as one that names no file of the caller's."""
    if error.errno in NO_SPACE_ERRNOS:
        return NoSpace("No space left for the workspace's state, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        f"The state folder cannot be used ({os.strerror(error.errno or 0)}), so nothing was changed.",
        hint="The folder must stay in place and be writable (WapExtension.state_dir; else in Jupyter's data folder).",
    )
