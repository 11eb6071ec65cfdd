"""A Layer: the folder above the workspace that receives what a command writes.

    <layers>/<id>/upper   what the command wrote, see `change_reader.py`
    <layers>/<id>/work    for the kernel
    <layers>/<id>/layer.json

A layer survives the server: a command whose effect waits for a person's decision keeps its layer until then.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from secrets import token_hex
from typing import Any

from wap_kernel.files.contained.component_walk import FOLDER_FLAGS
from wap_kernel.files.contained.renames import sync_filesystem
from wap_kernel.files.contained.root import Root
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.errors import NO_SPACE_ERRNOS, Conflict, NoSpace, NotFound, ProviderUnavailable, WapError
from wap_kernel.model.hints import tell_user
from wap_kernel.providers.layers.change_reader import read_changes
from wap_kernel.providers.layers.launcher import Launcher, NamespaceProcess, NamespaceTask
from wap_kernel.state.file_lock import lock_within

_DESCRIPTION = "layer.json"
_TICK_SECONDS = 0.001
REMOVED = "removed-"
"""The prefix of layers whose files are being removed."""
LOCK_SECONDS = 10.0
"""Seconds to wait for another user of a layer."""
UNFINISHED_SECONDS = 60.0
"""Seconds after which a layer that has no description is taken for one whose process died while it was made."""


@dataclass(frozen=True)
class LayerDescription:
    """The facts about a layer that survive the server."""

    began_ns: int
    user_namespace: bool


class Layer:
    """One layer on disk, and the namespace that holds it mounted for the commands of a batch."""

    def __init__(self, folder: str, root: Root, launcher: Launcher, description: LayerDescription) -> None:
        self.id = os.path.basename(folder)
        self.folder = folder
        self.began_ns = description.began_ns
        """The time at which the layer began, as the workspace's filesystem gave it."""
        self._root = root
        self._launcher = launcher
        self._user_namespace = description.user_namespace
        self._holder: NamespaceProcess | None = None
        self._mounted: list[int] = []
        self._lock: int | None = None

    def lock(self, seconds: float = 0.0) -> bool:
        """Mark the layer as in use until `close`; return False if another user, in any process, has it or it is gone.

        A layer that is locked is not removed by anybody else.
        """
        if self._lock is None:
            try:
                descriptor = os.open(self.folder, FOLDER_FLAGS)
            except OSError:
                return False
            if not lock_within(descriptor, seconds) or not _is_still(descriptor, self.folder):
                os.close(descriptor)
                return False
            self._lock = descriptor
        return True

    @property
    def age_seconds(self) -> float:
        """Return the seconds since the layer was made or got its last note."""
        return _read_age(self.folder)

    @property
    def upper(self) -> str:
        return os.path.join(self.folder, "upper")

    @property
    def mount_options(self) -> dict[str, str]:
        return {"upperdir": self.upper, "workdir": os.path.join(self.folder, "work")}

    @property
    def lower(self) -> Root:
        """Return the files below the layer, those of the workspace."""
        return self._root

    @property
    def files(self) -> Root:
        """Return the files that a command on this layer sees: those of the workspace until the layer is held."""
        return self._root.at_descriptor(self._mounted[0]) if self._mounted else self._root

    # -- batches

    def hold(self) -> int:
        """Mount the layer for several commands, and return a descriptor of the merged folder, open until `release`."""
        if self._holder is None:
            found = os.fstat(self._root.fd)
            task = NamespaceTask(self._root.path, (found.st_dev, found.st_ino), layer=self.mount_options)
            holder = self._launcher.launch(task)
            failure, descriptors = holder.receive()
            if failure is not None:
                holder.end()
                raise ProviderUnavailable(
                    f"The layer could not be mounted: {failure.text}.", hint=tell_user("Run `wap doctor`.")
                )
            merged = os.open(".", FOLDER_FLAGS, dir_fd=descriptors[0])  # the one that was sent cannot be read
            os.close(descriptors[0])
            self._holder, self._mounted = holder, [merged, *descriptors[1:]]
        return self._mounted[0]

    @property
    def namespaces(self) -> tuple[int, int] | None:
        """Return descriptors of the namespaces that hold the layer, None while it is not held."""
        return (self._mounted[1], self._mounted[2]) if self._mounted else None

    def release(self) -> None:
        """Unmount a layer that was held; what it holds stays."""
        mounted, self._mounted = self._mounted, []
        for descriptor in mounted:
            os.close(descriptor)
        if self._holder is not None:
            self._holder.end()
            self._holder = None

    def close(self) -> None:
        """Unmount the layer and give it free; what it holds stays."""
        self.release()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    # -- contents

    def restart_clock(self) -> None:
        """Begin now, with a layer that was made ahead of time and holds nothing yet."""
        with _translate_errors():
            self.began_ns = read_clock(self._root, self.folder)
            _write_description(self.folder, LayerDescription(self.began_ns, self._user_namespace))

    def await_tick(self) -> None:
        """Wait until the filesystem's clock has gone on, so that what a person saves from now on is newer."""
        while read_clock(self._root, self.folder) <= self.began_ns:
            time.sleep(_TICK_SECONDS)

    def read_changes(self) -> ChangeSet:
        """Return what the commands on this layer have changed; none of them may be running."""
        prefix = "user.overlay." if self._user_namespace else "trusted.overlay."
        return read_changes(self.upper, self._root.fd, prefix)

    def read_note(self, name: str) -> Any:
        """Return what `write_note` stored under a name, or None."""
        try:
            with open(os.path.join(self.folder, f"{name}.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    @property
    def renames_folders(self) -> bool:
        """Return whether a command can rename a folder that was there before; in a user namespace that is EXDEV."""
        return not self._user_namespace

    def write_note(self, name: str, value: Any) -> None:
        """Store a value with the layer, such as the outcome of its command, and make all that it holds durable."""
        with _translate_errors():
            temporary = os.path.join(self.folder, f".{name}.tmp")
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(value, file)
                file.flush()
                # The kernel has synced nothing that a command wrote.
                os.fsync(file.fileno()) if _is_empty(self.upper) else sync_filesystem(file.fileno())
            os.replace(temporary, os.path.join(self.folder, f"{name}.json"))

    def discard(self) -> None:
        """Unmount the layer and remove everything that it holds; it is gone at once, and its files soon."""
        self.release()
        removed = os.path.join(os.path.dirname(self.folder), f"{REMOVED}{self.id}")
        with suppress(FileNotFoundError):
            os.rename(self.folder, removed)  # under the lock: whoever waits for it finds that the layer is gone
            self._launcher.do_later(partial(remove_tree, removed))
        self.close()


class LayerStore:
    """The layers of one workspace, in `folder`, a place whose filesystem can carry them (see `probe.py`)."""

    def __init__(self, folder: str, root: Root, launcher: Launcher) -> None:
        self.folder = folder
        self._root = root
        self._launcher = launcher
        with _translate_errors():
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def create(self) -> Layer:
        """Make an empty layer on the workspace as it is now, and lock it."""
        folder = os.path.join(self.folder, f"layer_{token_hex(8)}")
        with _translate_errors():
            os.mkdir(folder, 0o700)
            description = LayerDescription(read_clock(self._root, folder), self._launcher.user_namespace)
            layer = self._open(folder, description)
            layer.lock()
            upper = os.path.join(folder, "upper")
            os.mkdir(upper, 0o700)
            os.mkdir(os.path.join(folder, "work"), 0o700)
            top = os.fstat(self._root.fd)
            if top.st_uid != os.geteuid() or top.st_gid != os.stat(upper).st_gid:
                with suppress(PermissionError):
                    os.chown(upper, top.st_uid, top.st_gid)
            os.chmod(upper, stat.S_IMODE(top.st_mode))  # the merged folder has the mode of the upper one
            _write_description(folder, description)  # last: from now on others see it
        return layer

    def load(self, identifier: str) -> Layer:
        """Return the layer with this id, locked; raise NotFound where it is gone, Conflict where it is in use."""
        layer = self._find(identifier)
        if not layer.lock(LOCK_SECONDS):
            self._find(identifier)
            raise Conflict("The layer of this command is in use.", hint="Try again.")
        return layer

    def _find(self, identifier: str) -> Layer:
        folder = os.path.join(self.folder, os.path.basename(identifier))
        try:
            with open(os.path.join(folder, _DESCRIPTION), encoding="utf-8") as file:
                description = LayerDescription(**json.load(file))
        except (OSError, ValueError, TypeError):
            raise NotFound(
                "The layer of this command is gone, and with it what the command changed.",
                hint="Run the command again.",
            ) from None
        return self._open(folder, description)

    def exists(self, identifier: str) -> bool:
        return os.path.exists(os.path.join(self.folder, os.path.basename(identifier), _DESCRIPTION))

    def list(self) -> list[Layer]:
        """Return the layers on disk, oldest first. They are not locked: others may use or remove them meanwhile."""
        found = []
        for name in os.listdir(self.folder):
            with suppress(NotFound):
                if not name.startswith(REMOVED):
                    found.append(self._find(name))
        return sorted(found, key=lambda layer: (layer.began_ns, layer.id))

    def remove_leftovers(self) -> None:
        """Remove the files of layers that were being made or removed when their process died."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith(REMOVED) or (not self.exists(name) and _read_age(path) > UNFINISHED_SECONDS):
                remove_tree(path)

    def remove(self, identifier: str) -> None:
        """Remove a layer, which may be gone already."""
        with suppress(NotFound):
            self.load(identifier).discard()

    def _open(self, folder: str, description: LayerDescription) -> Layer:
        return Layer(folder, self._root, self._launcher, description)


def _is_still(descriptor: int, folder: str) -> bool:
    """Return whether an open folder has not been renamed or removed since."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except OSError:
        return False


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:  # a command has closed it
        return False


def _read_age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _write_description(folder: str, description: LayerDescription) -> None:
    with open(os.path.join(folder, _DESCRIPTION), "w", encoding="utf-8") as file:
        json.dump(vars(description), file)


def read_clock(root: Root, folder: str) -> int:
    """Return the time that the workspace's filesystem gives to a new file: its clock is coarse, or another machine's.

    Where a nameless file cannot be made there, a file in `folder` gives the time.
    """
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=root.fd)
        try:
            return os.fstat(descriptor).st_ctime_ns
        finally:
            os.close(descriptor)
    except OSError:
        path = os.path.join(folder, ".clock")
        with open(path, "wb"):
            os.utime(path)
        return os.stat(path).st_ctime_ns


def remove_tree(folder: str) -> None:
    """Remove a folder of layers, also what a command has closed to its owner, or nested deeper than a path can name."""
    prefix, numbers, pending = os.path.join(folder, f".{token_hex(8)}-"), count(), [folder]
    with suppress(OSError):
        while pending:
            path = pending.pop()
            with os.scandir(path) as found:
                entries = list(found)
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                pending.append(f"{prefix}{next(numbers)}")
                os.rename(entry.path, pending[-1])
            if path != folder:
                os.rmdir(path)
        os.rmdir(folder)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _layer_error(error) from error


def _layer_error(error: OSError) -> WapError:
    if error.errno in NO_SPACE_ERRNOS:
        return NoSpace(
            "No space left for what the command would write, so nothing was changed.", hint="Free some space."
        )
    return ProviderUnavailable(
        f"A layer for the command cannot be made ({os.strerror(error.errno or 0)}), so nothing was run.",
        hint=tell_user("The state folder must be writable (WapExtension.state_dir)."),
    )
