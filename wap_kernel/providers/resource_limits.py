"""Limit the resources of a command and all that it starts: by control groups where possible, else by rlimits.

A control group counts a command as a whole. Root can create one, and a user to whom one was delegated (systemd does so
for a login). Rlimits are the fallback: they always limit the size of a file; they count processes by user namespace
(Linux 5.14), but never for root; they count memory for each process alone, so the command as a whole is not limited.

Moving a process into a group costs the kernel about 10 ms, more than starting a sandbox. In version 1 a thread can move
itself at no cost, and its children stay there. In version 2 it cannot, so there a group only limits memory if an rlimit
can count the processes.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex

from wap_kernel.providers.base import ResourceLimits

_PREFIX = "wap-"
_OWN_PROCESSES = 4
"""Processes and threads in a group that are not the command's: bubblewrap, twice, its script, and a server's thread."""
_REMOVAL_SECONDS = 2.0
"""Seconds that the kernel may take to release a group whose processes have all ended."""

# The files to write for each limit. One that ends in "?" may be missing: then there is no swap to count.
_V2 = {"processes": ("pids", ["pids.max"]), "memory": ("memory", ["memory.max", "memory.swap.max=0?"])}
_V1 = {
    "processes": ("pids", ["pids.max"]),
    "memory": ("memory", ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes?"]),
}


@dataclass(frozen=True)
class ControlGroups:
    """The folders of this machine in which groups can be created, one for each limit, and the files that set it."""

    folders: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, list[str]] = field(default_factory=dict)
    can_move_threads: bool = False
    """Version 1 of control groups, in which a thread can move itself."""


def enforced_limits(limits: ResourceLimits, groups: ControlGroups | None = None) -> Mapping[str, bool]:
    """Return which of the limits this machine enforces for a command as a whole."""
    groups = find_groups() if groups is None else groups
    is_enforced = {
        "processes": "processes" in groups.folders or _counts_processes(),
        "memory": "memory" in groups.folders,
        "file size": True,
    }
    values = {"processes": limits.processes, "memory": limits.memory, "file size": limits.file_size}
    return {name: is_enforced[name] for name, limit in values.items() if limit is not None}


class CommandLimits:
    """The limits of one command. `stack` removes the groups after everything has ended."""

    def __init__(self, stack: ExitStack, limits: ResourceLimits, groups: ControlGroups) -> None:
        self._limits = limits
        self._groups = groups
        self._created: dict[str, str] = {}
        values = {"processes": limits.processes, "memory": limits.memory}
        name = f"{_PREFIX}{os.getpid()}-{token_hex(4)}"
        for limit, folder in groups.folders.items():
            value = values[limit]
            if value is None or (limit == "processes" and not groups.can_move_threads and _counts_processes()):
                continue
            group = os.path.join(folder, name)
            if group not in self._created.values():
                os.mkdir(group)
                stack.callback(_remove, group)
            self._created[limit] = group
            for file in groups.files[limit]:
                _set(group, file, value + _OWN_PROCESSES if limit == "processes" else value)

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Keep the calling thread in the groups for the block, where possible, with every process that it starts."""
        if not self._groups.can_move_threads:
            yield
            return
        with ExitStack() as stack:
            for limit, group in self._created.items():  # 0 is the calling thread, which makes it cheap
                stack.callback(_write, os.path.join(self._groups.folders[limit], "tasks"), 0)
                _write(os.path.join(group, "tasks"), 0)
            yield

    def add_process(self, pid: int) -> None:
        """Set the remaining limits for a process that is about to become the command."""
        if not self._groups.can_move_threads:
            for group in set(self._created.values()):
                _write(os.path.join(group, "cgroup.procs"), pid)
        import resource

        for number, value in _rlimits(self._limits, self._created).items():
            _, hard = resource.prlimit(pid, number)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, number, (value, value))


class UnlimitedGroup:
    """A control group without limits, which keeps the processes of one command together."""

    def __init__(self, stack: ExitStack, groups: ControlGroups) -> None:
        self._groups = groups
        self._folder = next(iter(groups.folders.values()))
        self._group = os.path.join(self._folder, f"{_PREFIX}{os.getpid()}-{token_hex(4)}")
        os.mkdir(self._group)
        stack.callback(_remove, self._group)

    @contextmanager
    def enter(self) -> Iterator[None]:
        if not self._groups.can_move_threads:
            yield
            return
        _write(os.path.join(self._group, "tasks"), 0)
        try:
            yield
        finally:
            _write(os.path.join(self._folder, "tasks"), 0)

    def add_process(self, pid: int) -> None:
        if not self._groups.can_move_threads:
            _write(os.path.join(self._group, "cgroup.procs"), pid)

    def kill_all(self) -> None:
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while time.monotonic() < deadline:
            with open(os.path.join(self._group, "cgroup.procs"), encoding="ascii") as file:
                left = [int(line) for line in file]
            if not left:
                return
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def create_group(groups: ControlGroups, stack: ExitStack) -> UnlimitedGroup | None:
    """Return a group for one command, or None where no group can be created."""
    try:
        return UnlimitedGroup(stack, groups) if groups.folders else None
    except OSError:
        return None


@contextmanager
def open_limits(limits: ResourceLimits, groups: ControlGroups) -> Iterator[Callable[[int], None]]:
    """Yield a function that puts a running process under the limits. The block must end after the process."""
    with ExitStack() as stack:
        yield CommandLimits(stack, limits, replace(groups, can_move_threads=False)).add_process


def _rlimits(limits: ResourceLimits, grouped: Mapping[str, str]) -> dict[int, int]:
    import resource  # not at the top: Windows has none, and this module must be importable to say so

    values: dict[int, int | None] = {
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NPROC: limits.processes if "processes" not in grouped and _counts_processes() else None,
        # Not the address space (RLIMIT_AS), of which node and java reserve far more than they use.
        resource.RLIMIT_DATA: limits.memory if "memory" not in grouped else None,
    }
    return {number: value for number, value in values.items() if value is not None}


def _counts_processes() -> bool:
    """Return whether RLIMIT_NPROC counts the processes of a user namespace, not all processes of the user."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return os.getuid() != 0 and version is not None and (int(version[1]), int(version[2])) >= (5, 14)


def find_groups(proc: str = "/proc/self") -> ControlGroups:
    """Return where this process may create control groups, and remove those that a killed server left there."""
    folders: dict[str, str] = {}
    files: dict[str, list[str]] = {}
    versions: set[int] = set()
    mounts = list(_read_cgroup_mounts(proc))
    for controllers, path in sorted(_read_own_groups(proc), key=lambda own: not own[0]):
        table, version = (_V1, 1) if controllers else (_V2, 2)
        if version == 2 and versions:
            break  # both versions together are not supported
        for limit, (controller, names) in table.items():
            if controllers and controller not in controllers:
                continue
            found = (
                folder for options, point in mounts for folder in _find_candidates(options, point, controller, path)
            )
            folder = None if limit in folders else next(found, None)
            if folder is not None:
                folders[limit], files[limit] = folder, names
                versions.add(version)
                _remove_stale_groups(folder)
    return ControlGroups(folders, files, can_move_threads=1 in versions)


def _read_own_groups(proc: str) -> Iterator[tuple[list[str], str]]:
    """Yield the controllers (none: version 2) and the server's path below each hierarchy."""
    try:
        with open(f"{proc}/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        yield [name for name in controllers.split(",") if name], path


def _read_cgroup_mounts(proc: str) -> Iterator[tuple[list[str] | None, str]]:
    """Yield the options (None: version 2) and the mount point of each hierarchy."""
    try:
        with open(f"{proc}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        first, _, last = line.partition(" - ")
        kind, _, options = last.split(" ", 2)
        if kind == "cgroup2":
            yield None, first.split()[4]
        elif kind == "cgroup":
            yield options.split(","), first.split()[4]


def _find_candidates(options: list[str] | None, point: str, controller: str, path: str) -> Iterator[str]:
    own = os.path.normpath(f"{point}/{path}")
    if options is not None:
        if controller in options and _can_make_groups(own):
            yield own
        return
    # In version 2 a group with processes has no groups with limits below, so the new group is the server's sibling.
    for folder in (own, os.path.dirname(own)):
        if folder.startswith(point) and _can_make_groups(folder) and controller in _read_enabled(folder):
            yield folder


def _can_make_groups(folder: str) -> bool:
    return os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)


def _read_enabled(folder: str) -> list[str]:
    try:
        with open(f"{folder}/cgroup.subtree_control", encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def _remove_stale_groups(folder: str) -> None:
    for name in os.listdir(folder):
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            _remove(os.path.join(folder, name), seconds=0.0)


def _remove(group: str, seconds: float = _REMOVAL_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:  # busy for a moment longer
            if time.monotonic() >= deadline:
                return
            time.sleep(0.002)


def _set(group: str, file: str, value: int | None) -> None:
    name, _, fixed = file.removesuffix("?").partition("=")
    try:
        _write(os.path.join(group, name), fixed or value)
    except OSError:
        if not file.endswith("?"):
            raise


def _write(path: str, value: object) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))
