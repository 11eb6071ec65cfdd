"""Find a folder whose filesystem can carry layers, by mounting one there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from wap_kernel.model.errors import WapError
from wap_kernel.providers.layers.launcher import Launcher, NamespaceTask, needs_user_namespace

FALLBACKS = ("/var/tmp", "/dev/shm")


@dataclass(frozen=True)
class LayerFolder:
    """The folder for layers."""

    folder: str | None
    """The path, None where no layer can be mounted on this machine."""
    detail: str
    """The place and the way, or the reason why there are none, for people."""


def find_layer_folder(root: str, state_dir: str, *, is_trial: bool = False) -> LayerFolder:
    """Return where layers of the workspace at `root` can lie: in the state folder, else in another place.

    The folder is made, but not in a trial.
    """
    user_namespace = needs_user_namespace()
    reasons: list[str] = []
    for folder in _list_candidates(state_dir):
        missing = _list_missing(folder)
        reason = _try_layer(root, folder, user_namespace=user_namespace)
        if reason is not None or is_trial:
            for path in missing:
                with suppress(OSError):
                    os.rmdir(path)
        if reason is None:
            way = "in a user namespace" if user_namespace else "without a user namespace"
            return LayerFolder(folder, f"overlayfs in {folder}, mounted {way}")
        reasons.append(reason)
    return LayerFolder(None, f"no layer can be mounted: {reasons[0]}")


def _list_candidates(state_dir: str) -> Iterator[str]:
    yield os.path.join(state_dir, "layers")
    for parent in FALLBACKS:
        if os.path.isdir(parent):
            name = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:16]
            yield os.path.join(parent, f"wap-{os.geteuid()}-{name}")


def _list_missing(folder: str) -> list[str]:
    """Return the folders that are to be made for a path, the deepest first."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _try_layer(root: str, folder: str, *, user_namespace: bool) -> str | None:
    """Mount a layer in `folder` over `root`, write to it, and return why that does not work."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if found.st_uid != os.geteuid() or found.st_mode & 0o170077 != 0o040000:
            return f"{folder} is open to others"
        with ExitStack() as stack:
            probe = stack.enter_context(tempfile.TemporaryDirectory(prefix="probe-", dir=folder))
            upper, work = (os.path.join(probe, name) for name in ("upper", "work"))
            os.mkdir(upper, 0o700)
            os.mkdir(work, 0o700)
            found = os.stat(root)
            layer = {"upperdir": upper, "workdir": work}
            task = NamespaceTask(root, (found.st_dev, found.st_ino), layer=layer)
            launcher = Launcher(user_namespace=user_namespace)
            program = launcher.launch(task)
            stack.callback(program.end)
            failure, descriptors = program.receive()
            if failure is not None:
                return failure.text
            for descriptor in descriptors:
                stack.callback(os.close, descriptor)
            return _write_through(descriptors[0], upper)
    except (OSError, WapError) as error:
        return str(error)


def _write_through(merged: int, upper: str) -> str | None:
    """Make a folder in the merged folder and return why it does not arrive in the upper one."""
    name = ".wap-probe"
    os.mkdir(name, dir_fd=merged)
    arrived = os.path.isdir(os.path.join(upper, name))
    os.rmdir(name, dir_fd=merged)
    return None if arrived else "what is written does not arrive in the layer"
