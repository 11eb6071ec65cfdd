"""Limits on what a command and all that it starts may take: by control groups where they can be made, else by rlimits.

A control group counts a command as a whole. Root can make one, and a user to whom one was delegated (systemd does
so for a login). Rlimits are what is left: the size of a file is always held by them; processes are counted by user
namespace (Linux 5.14), but never for root; memory counts for each process alone, so as a whole it is not held.

Moving a process into a group costs the kernel about 10 ms, more than starting a sandbox. In version 1 a thread can move
itself for nothing, and what it starts there stays there. In version 2 it cannot, so there only memory is held that way
if processes can be counted by an rlimit.
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
_OUR_OWN = 4
"""Processes and threads in a group that are not the command's: bubblewrap, twice, its script, and our own thread."""
_PATIENCE = 2.0
"""Seconds for the kernel to let go of a group whose processes have all ended."""

# What to write for each limit. A file that ends in "?" may be missing: there is no swap to be counted then.
_V2 = {"processes": ("pids", ["pids.max"]), "memory": ("memory", ["memory.max", "memory.swap.max=0?"])}
_V1 = {
    "processes": ("pids", ["pids.max"]),
    "memory": ("memory", ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes?"]),
}


@dataclass(frozen=True)
class ControlGroups:
    """Where groups can be made on this machine: the folder for each limit, and the files that set it."""

    folders: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, list[str]] = field(default_factory=dict)
    threads_move: bool = False
    """Version 1."""


def held(limits: ResourceLimits, groups: ControlGroups | None = None) -> Mapping[str, bool]:
    """Which of the limits hold on this machine, for a command as a whole."""
    groups = find_groups() if groups is None else groups
    holds = {
        "processes": "processes" in groups.folders or _counts_processes(),
        "memory": "memory" in groups.folders,
        "file size": True,
    }
    wanted = {"processes": limits.processes, "memory": limits.memory, "file size": limits.file_size}
    return {name: holds[name] for name, limit in wanted.items() if limit is not None}


class Limited:
    """The limits of one command, for which `stack` makes groups and removes them, after everything has ended."""

    def __init__(self, stack: ExitStack, limits: ResourceLimits, groups: ControlGroups) -> None:
        self._limits = limits
        self._groups = groups
        self._made: dict[str, str] = {}
        wanted = {"processes": limits.processes, "memory": limits.memory}
        name = f"{_PREFIX}{os.getpid()}-{token_hex(4)}"
        for limit, folder in groups.folders.items():
            value = wanted[limit]
            if value is None or (limit == "processes" and not groups.threads_move and _counts_processes()):
                continue
            group = os.path.join(folder, name)
            if group not in self._made.values():
                os.mkdir(group)
                stack.callback(_remove, group)
            self._made[limit] = group
            for file in groups.files[limit]:
                _set(group, file, value + _OUR_OWN if limit == "processes" else value)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Within the block the calling thread is in the groups, if it can be, and so is whatever it starts."""
        if not self._groups.threads_move:
            yield
            return
        with ExitStack() as stack:
            for limit, group in self._made.items():  # 0: myself, which is what makes it cheap
                stack.callback(_write, os.path.join(self._groups.folders[limit], "tasks"), 0)
                _write(os.path.join(group, "tasks"), 0)
            yield

    def put(self, pid: int) -> None:
        """Set what is still to be set, for a process that is about to become the command."""
        if not self._groups.threads_move:
            for group in set(self._made.values()):
                _write(os.path.join(group, "cgroup.procs"), pid)
        import resource

        for number, value in _rlimits(self._limits, self._made).items():
            _, hard = resource.prlimit(pid, number)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, number, (value, value))


class Kept:
    """A group without limits, which keeps the processes of one command together."""

    def __init__(self, stack: ExitStack, groups: ControlGroups) -> None:
        self._groups = groups
        self._folder = next(iter(groups.folders.values()))
        self._group = os.path.join(self._folder, f"{_PREFIX}{os.getpid()}-{token_hex(4)}")
        os.mkdir(self._group)
        stack.callback(_remove, self._group)

    @contextmanager
    def inside(self) -> Iterator[None]:
        if not self._groups.threads_move:
            yield
            return
        _write(os.path.join(self._group, "tasks"), 0)
        try:
            yield
        finally:
            _write(os.path.join(self._folder, "tasks"), 0)

    def put(self, pid: int) -> None:
        if not self._groups.threads_move:
            _write(os.path.join(self._group, "cgroup.procs"), pid)

    def kill_all(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with open(os.path.join(self._group, "cgroup.procs"), encoding="ascii") as file:
                left = [int(line) for line in file]
            if not left:
                return
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def kept(groups: ControlGroups, stack: ExitStack) -> Kept | None:
    """None where no group can be made, now or at all."""
    try:
        return Kept(stack, groups) if groups.folders else None
    except OSError:
        return None


@contextmanager
def limited(limits: ResourceLimits, groups: ControlGroups) -> Iterator[Callable[[int], None]]:
    """Gives a function that puts a process that runs already under the limits. The block must end after all of it."""
    with ExitStack() as stack:
        yield Limited(stack, limits, replace(groups, threads_move=False)).put


def _rlimits(limits: ResourceLimits, grouped: Mapping[str, str]) -> dict[int, int]:
    import resource  # not at the top: Windows has none, and is to be told so by somebody who could be imported

    wanted: dict[int, int | None] = {
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NPROC: limits.processes if "processes" not in grouped and _counts_processes() else None,
        # Not the address space (RLIMIT_AS), of which node and java reserve far more than they use.
        resource.RLIMIT_DATA: limits.memory if "memory" not in grouped else None,
    }
    return {number: value for number, value in wanted.items() if value is not None}


def _counts_processes() -> bool:
    """Whether RLIMIT_NPROC counts what is in a user namespace, and not all that the user has running."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return os.getuid() != 0 and version is not None and (int(version[1]), int(version[2])) >= (5, 14)


def find_groups(proc: str = "/proc/self") -> ControlGroups:
    """Where this process may make control groups. What a killed server left of them is removed on the way."""
    folders: dict[str, str] = {}
    files: dict[str, list[str]] = {}
    versions: set[int] = set()
    mounts = list(_cgroup_mounts(proc))
    for controllers, path in sorted(_own_groups(proc), key=lambda own: not own[0]):
        table, version = (_V1, 1) if controllers else (_V2, 2)
        if version == 2 and versions:
            break  # a mixture of both is not worth its trouble
        for limit, (controller, names) in table.items():
            if controllers and controller not in controllers:
                continue
            found = (folder for options, point in mounts for folder in _candidates(options, point, controller, path))
            folder = None if limit in folders else next(found, None)
            if folder is not None:
                folders[limit], files[limit] = folder, names
                versions.add(version)
                _clean_up_after_the_dead(folder)
    return ControlGroups(folders, files, threads_move=1 in versions)


def _own_groups(proc: str) -> Iterator[tuple[list[str], str]]:
    """The controllers (none: version 2) and our path below each hierarchy."""
    try:
        with open(f"{proc}/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        yield [name for name in controllers.split(",") if name], path


def _cgroup_mounts(proc: str) -> Iterator[tuple[list[str] | None, str]]:
    """The options (None: version 2) and the mount point of each hierarchy."""
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


def _candidates(options: list[str] | None, point: str, controller: str, path: str) -> Iterator[str]:
    own = os.path.normpath(f"{point}/{path}")
    if options is not None:
        if controller in options and _can_make_groups(own):
            yield own
        return
    # In version 2 a group with processes in it has no groups with limits below, so a neighbour of ours is made.
    for folder in (own, os.path.dirname(own)):
        if folder.startswith(point) and _can_make_groups(folder) and controller in _enabled(folder):
            yield folder


def _can_make_groups(folder: str) -> bool:
    return os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)


def _enabled(folder: str) -> list[str]:
    try:
        with open(f"{folder}/cgroup.subtree_control", encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def _clean_up_after_the_dead(folder: str) -> None:
    for name in os.listdir(folder):
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            _remove(os.path.join(folder, name), patience=0.0)


def _remove(group: str, patience: float = _PATIENCE) -> None:
    deadline = time.monotonic() + patience
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
