"""The state folder: where the audit, leases and locks of one workspace live, shared by every process that serves it."""

from __future__ import annotations

import hashlib
import os

from wap_kernel.model.errors import NO_SPACE_ERRNOS, NoSpace, ProviderUnavailable, WapError


def default_state_dir(root: str) -> str:
    """`<jupyter data dir>/wap/<id of the root>`."""
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "wap", workspace_id(root))


def workspace_id(root: str) -> str:
    """The same folder has the same id in every process, however it was named."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]


def open_state_dir(path: str) -> str:
    """Make the folder if need be, closed to everybody else, and return its real path."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(path, 0o700)
        os.makedirs(os.path.join(path, "locks"), mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable(error) from error
    return os.path.realpath(path)


def open_lock(path: str) -> int:
    """A descriptor of a file of the state folder that exists to be locked."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(error) from error


def unusable(error: OSError) -> WapError:
    """What the system says of the state folder, which must not pass for something about a file of the caller's."""
    if error.errno in NO_SPACE_ERRNOS:
        return NoSpace("No space left for the workspace's state, so nothing was changed.", hint="Free some space.")
    return ProviderUnavailable(
        f"The state folder cannot be used ({os.strerror(error.errno or 0)}), so nothing was changed.",
        hint="It must stay where it is and be writable (WapExtension.state_dir; by default in Jupyter's data folder).",
    )
