"""The bubblewrap provider: the server's own filesystem, and commands in namespaces of their own.

A command sees the mounts of `mounts.py` and nothing else of the host: no other process, no network unless policy grants
it, no privileges and no way to new ones. With the network it has the host's, also what listens on the loopback.

bubblewrap starts in a namespace in which the workspace is a Layer, or the workspace itself, with its guards mounted:
see `layers/`. Not prevented: a process *outside* replaces a guarded file while a command runs; from then on that
command sees the new file.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, OnChunk
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.providers import host_paths, seccomp
from wap_kernel.providers.active_commands import ActiveCommands, open_folder
from wap_kernel.providers.base import Probe, ResourceLimits
from wap_kernel.providers.layers.launcher import Launcher, NamespaceTask, build_task, needs_user_namespace
from wap_kernel.providers.layers.layer import LayerStore
from wap_kernel.providers.layers.pid_namespace import NamespacedCommand
from wap_kernel.providers.mounts import HostPaths, Layout, Mount, MountKind, to_alias
from wap_kernel.providers.process import environment, run
from wap_kernel.providers.resource_limits import enforced_limits, find_groups

SECCOMP = "/proc/sys/kernel/seccomp"
"""The folder that exists where the kernel can filter system calls."""
OLDEST_VERSION = (0, 8, 0)
"""The first version that can forbid further user namespaces."""
ATTEMPTS = 5
_TRANSIENT = ("No such file or directory", "Unable to apply mount flags")
"""Parts of bubblewrap's reasons when a file of the system is replaced meanwhile, or a folder above a guard is moved."""
EMPTY_FILE = os.path.join(os.path.dirname(__file__), "empty")
PROBE_SECONDS = 10.0
_FILTER_NUMBER, _ATTRIBUTES_NUMBER = 11, 12
"""The numbers of descriptors in bubblewrap: of the filter of system calls, and of the file of git's attributes."""

ISOLATION = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
)
KERNEL_SETTINGS = tuple(f"/proc/{name}" for name in "sys sysrq-trigger irq bus fs acpi scsi driver mtrr".split())
KERNEL_SECRETS = tuple(
    f"/proc/{name}"
    for name in """
    kcore keys key-users kmsg timer_list sched_debug latency_stats slabinfo vmallocinfo pagetypeinfo
    kpagecgroup kpagecount kpageflags
    """.split()
)
"""Files that the kernel opens for user 0, without a capability; a server that is root has that number inside too."""
_MOUNT_OPTIONS: Mapping[MountKind, tuple[str, ...]] = {
    MountKind.READ_ONLY: ("--ro-bind", "SOURCE", "TARGET"),
    MountKind.WRITABLE: ("--bind", "SOURCE", "TARGET"),
    MountKind.COPY: ("--bind", "SOURCE", "TARGET"),
    MountKind.TEMPORARY: ("--perms", "1777", "--tmpfs", "TARGET"),
    MountKind.HIDDEN_FOLDER: ("--perms", "0555", "--tmpfs", "TARGET"),
    MountKind.HIDDEN_FILE: ("--ro-bind", EMPTY_FILE, "TARGET"),
    MountKind.LINK: ("--symlink", "SOURCE", "TARGET"),
    MountKind.PROC: ("--proc", "TARGET"),
    MountKind.DEV: ("--dev", "TARGET"),
}


class BubblewrapProvider:
    """The provider that confines commands with bubblewrap. The caller closes `root` after the provider.

    `secrets` are absolute paths that no command sees, wherever they lie. `layer_folder` is where layers can lie.
    """

    name = "bubblewrap"
    confines = True
    checks_while_starting = True

    def __init__(
        self,
        root: Root,
        *,
        secrets: Sequence[str],
        server_environment: Mapping[str, str] | None = None,
        grace: float = run.GRACE,
        resources: ResourceLimits | None = None,
        program: str | None = None,
        layer_folder: str | None = None,
    ) -> None:
        self.files = root
        self._environment = os.environ if server_environment is None else server_environment
        self._grace = grace
        self._limits = resources or ResourceLimits()
        self._program = find_program(program)
        secrets = (*secrets, *filter(None, [layer_folder]))
        self._layout = Layout(
            root.path, host_paths.gather_host_paths(root, environment=self._environment, secrets=secrets)
        )
        self._launcher = Launcher(
            user_namespace=needs_user_namespace(), limits=self._limits, groups=find_groups(), is_ahead=True
        )
        self.layers = None if layer_folder is None else LayerStore(layer_folder, root, self._launcher)
        self._filter = seccomp.build_program(platform.machine()) if os.path.exists(SECCOMP) else None
        self._active = ActiveCommands()

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        confinement = command.confinement
        files = self.files if confinement.layer is None else confinement.layer.files
        variables = environment.build_environment(self._environment, command.environment, command.env_allowlist)
        if confinement.git_attributes is not None:
            variables |= environment.GIT_ATTRIBUTES_SETTINGS
        if confinement.for_tool:
            variables |= environment.TOOL_SETTINGS
        argv = run.build_argv(command.command, variables.get("PATH", ""))
        cancel = cancel or CancelToken()
        with open_folder(files, command.cwd) as folder, self._active.track(cancel):
            cwd = os.path.normpath(os.path.join(files.path, folder.path))
            return run.follow(
                lambda stack: self._start(stack, command, files, argv, variables, cwd),
                timeout=command.timeout,
                output_limit=command.output_limit,
                on_chunk=on_chunk,
                cancel=cancel,
            )

    def close(self) -> None:
        self._active.close()
        self._launcher.close()

    def _start(
        self,
        stack: ExitStack,
        command: Command,
        files: Root,
        argv: Sequence[str],
        variables: Mapping[str, str],
        cwd: str,
    ) -> NamespacedCommand:
        confinement, layer = command.confinement, command.confinement.layer
        mounts = self._layout.mounts(confinement)
        resolved = host_paths.resolve_confinement(confinement, files)
        task = build_task(files, self._layout.guards(resolved, partial(host_paths.lstat_kind_below, files)), layer)
        options = build_options(mounts, network=confinement.network, memory=self._limits.memory)
        passed: dict[int, bytes] = {}
        if self._filter is not None and not confinement.network:
            options += ["--seccomp", str(_FILTER_NUMBER)]
            passed[_FILTER_NUMBER] = self._filter
        if confinement.git_attributes is not None:
            passed[_ATTRIBUTES_NUMBER] = Path(confinement.git_attributes).read_bytes()
        for attempt in range(1, ATTEMPTS + 1):
            with ExitStack() as started:
                try:
                    process = NamespacedCommand(
                        started,
                        partial(self._launcher.launch, task),
                        self._program,
                        [*options, "--chdir", to_alias(cwd, mounts) if command.by_alias else cwd],
                        argv,
                        variables,
                        self._grace,
                        while_starting=command.check,
                        on_ready=partial(_make_ready, command),
                        files=passed,
                    )
                except ProviderUnavailable as error:
                    if attempt == ATTEMPTS or not any(reason in error.message for reason in _TRANSIENT):
                        raise
                else:
                    stack.push(started.pop_all())
                    return process
        raise AssertionError("unreachable")


def _make_ready(command: Command) -> None:
    if command.confinement.layer is not None:
        command.confinement.layer.await_tick()
    command.on_start()


def build_options(mounts: Sequence[Mount], *, network: bool, memory: int | None = None) -> list[str]:
    """Return the options for bubblewrap. `memory` limits the size of a folder that lives in memory."""
    return list(_yield_options(mounts, network, memory))


def _yield_options(mounts: Sequence[Mount], network: bool, memory: int | None) -> Iterator[str]:
    yield from ISOLATION
    if not network:
        yield "--unshare-net"
    for mount in mounts:
        if mount.kind is MountKind.TEMPORARY and memory is not None:
            yield from ("--size", str(memory))
        if mount.target == environment.GIT_ATTRIBUTES:
            # Not from its path: the state folder may lie in the workspace and be hidden by a guard.
            yield from ("--perms", "0444", "--ro-bind-data", str(_ATTRIBUTES_NUMBER), mount.target)
            continue
        for word in _MOUNT_OPTIONS.get(mount.kind, ()):
            yield mount.source if word == "SOURCE" else mount.target if word == "TARGET" else word
    if os.geteuid() == 0:
        yield from (word for path in KERNEL_SETTINGS if os.path.exists(path) for word in ("--ro-bind", path, path))
        yield from (word for path in KERNEL_SECRETS if os.path.exists(path) for word in ("--ro-bind", EMPTY_FILE, path))
    # Only now: until here bubblewrap made mount points in them.
    for mount in mounts:
        if mount.kind is MountKind.HIDDEN_FOLDER:
            yield from ("--remount-ro", mount.target)
    yield from ("--remount-ro", "/")


def find_program(program: str | None = None) -> str:
    found = shutil.which(program or "bwrap")
    if found is None:
        raise ProviderUnavailable(f"bubblewrap is not installed: no program {program or 'bwrap'}.", hint=INSTALL)
    return found


def probe(program: str | None = None) -> Probe:
    """Start a sandbox, and return what this machine lacks for it."""
    if sys.platform != "linux":
        return Probe("bubblewrap", False, "bubblewrap is for Linux.")
    try:
        found = find_program(program)
        version = _read_version(found)
    except WapError as error:
        return Probe("bubblewrap", False, error.message, fix=error.hint)
    text = ".".join(map(str, version))
    if version < OLDEST_VERSION:
        needed = ".".join(map(str, OLDEST_VERSION))
        return Probe("bubblewrap", False, f"bubblewrap {text} is too old: {needed} is needed", fix=INSTALL)
    try:
        _try_sandbox(found)
    except WapError as error:
        return Probe(
            "bubblewrap", False, f"bubblewrap {text}: {error.message}", fix=find_fix(error.message, _read_setting)
        )
    promises = {"files outside": True, "network": True, "other processes": True, **enforced_limits(ResourceLimits())}
    return Probe("bubblewrap", True, f"bubblewrap {text}", promises=promises)


def _read_version(program: str) -> tuple[int, ...]:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderUnavailable(f"bubblewrap cannot be run: {error}", hint=INSTALL) from error
    found = re.match(rb"bubblewrap (\d+)\.(\d+)\.(\d+)", done.stdout)
    if found is None:
        raise ProviderUnavailable(f"{program} is not bubblewrap.", hint=INSTALL)
    return tuple(map(int, found.groups()))


def _try_sandbox(program: str) -> None:
    """Start a sandbox with a short command; raise if it does not work."""
    system = (host_paths.resolve_links(path) for path in host_paths.SYSTEM if os.path.exists(path))
    with tempfile.TemporaryDirectory(prefix="wap-probe-") as folder:
        root = os.path.realpath(folder)
        mounts = Layout(root, HostPaths(software=tuple(system), temporary=())).mounts(Confinement())
        options = [*build_options(mounts, network=False), "--chdir", root]
        found = os.stat(root)
        task = NamespaceTask(root, (found.st_dev, found.st_ino))
        launcher = Launcher(user_namespace=needs_user_namespace())
        outcome = run.follow(
            lambda stack: NamespacedCommand(
                stack, partial(launcher.launch, task), program, options, ["/bin/sh", "-c", "exit 7"], {}, 0.0
            ),
            timeout=PROBE_SECONDS,
            output_limit=1000,
        )
    if outcome.exit_code != 7:
        raise ProviderUnavailable(f"a command in the sandbox does not work: {outcome.stderr.strip()}")


INSTALL = "apt install bubblewrap (or dnf, pacman, zypper, apk)"
_FIXES: Sequence[tuple[str, str, str, str]] = (
    ("", "kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("", "user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "",
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "give bwrap an AppArmor profile that has `userns,`, or: "
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("mount proc", "", "", "in a container: docker run --security-opt systempaths=unconfined"),
    ("namespace", "", "", "in a container: docker run --security-opt seccomp=unconfined (or --cap-add SYS_ADMIN)"),
    ("setuid", "", "", "chmod u-s $(command -v bwrap)"),
)
"""Fixes: a part of bubblewrap's reason, a setting below /proc/sys, its value, and what to do when both apply."""


def find_fix(reason: str, setting: Callable[[str], str | None]) -> str | None:
    """Return what to do when bubblewrap fails with `reason`; `setting` reads a kernel setting."""
    return next(
        (todo for words, name, value, todo in _FIXES if words in reason and (not name or setting(name) == value)),
        None,
    )


def _read_setting(name: str) -> str | None:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None
