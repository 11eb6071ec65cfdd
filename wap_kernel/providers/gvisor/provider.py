"""The gvisor provider: the server's own filesystem, and commands on a kernel of their own (runsc).

A command sees the mounts of `mounts.py` and nothing else; gVisor answers its system calls, not the host's kernel.
`pool.py` keeps sandboxes ready. With the network, a command has the host's, also what listens on the loopback.

runsc starts in a namespace in which the workspace is a Layer, or the workspace itself, with its guards mounted, see
`layers/`: the host's kernel holds them. `probe` reports what an old build of runsc cannot do. Not prevented: a process
on the host replaces a guarded file while a command runs; from then on that command sees the new file.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import Any

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, MountedLayer, OnChunk
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.providers import host_paths
from wap_kernel.providers.active_commands import ActiveCommands, open_folder
from wap_kernel.providers.base import Probe, ResourceLimits
from wap_kernel.providers.gvisor import bundle
from wap_kernel.providers.gvisor.command import GvisorCommand
from wap_kernel.providers.gvisor.pool import IDLE_SECONDS, SandboxKey, SandboxPool, identify_guarded, identify_root
from wap_kernel.providers.gvisor.pool_folder import PoolFolder, find_parent
from wap_kernel.providers.gvisor.prepared_layers import PreparedLayers
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox, read_flags, run_runsc
from wap_kernel.providers.layers.launcher import Launcher, NamespaceTask, build_task, needs_user_namespace
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.providers.mounts import HostPaths, Layout, Mount, to_alias
from wap_kernel.providers.process import environment, run
from wap_kernel.providers.process.supervisor_handle import TAG, start_error
from wap_kernel.providers.resource_limits import ControlGroups, find_groups

PROGRAM_VARIABLE = "RUNSC_PATH"
INSTALL = "apt install runsc, or https://gvisor.dev/docs/user_guide/install/; RUNSC_PATH names one elsewhere"

MAX_WORD_BYTES = 128 * 1024
"""Bytes of one argument or variable. gVisor takes longer ones, but a command should run with every provider."""

_WITHOUT_HOME = ("/bin/sh", "-c", 'unset HOME; exec "$@"', "sh")
"""The beginning of a command that gets no HOME: runsc sets one where there is none."""


class GvisorProvider:
    """The provider that confines commands with gVisor. The caller closes `root` after the provider.

    `secrets` are absolute paths that no command sees, wherever they lie. `layer_folder` is where layers can lie.
    """

    name = "gvisor"
    confines = True
    checks_while_starting = False

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
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.files = root
        self._environment = os.environ if server_environment is None else server_environment
        self._grace = grace
        self._limits = resources or ResourceLimits()
        self._program = find_program(program)
        secrets = (*secrets, *filter(None, [layer_folder]))
        host = host_paths.gather_host_paths(root, environment=self._environment, secrets=secrets)
        Layout(root.path, host)  # raises where no sandbox can be built around the root
        self._folder = PoolFolder(self._program, find_parent(root.path))
        self._layout = Layout(root.path, replace(host, secrets=(*host.secrets, self._folder.path)))
        with ExitStack() as undo:
            undo.enter_context(closing(self._folder))
            self._launcher = _build_launcher(self._limits, find_groups())
            self._pool = SandboxPool(self._folder, self._start, self._make_layer, idle=idle)
            self.layers = (
                None if layer_folder is None else PreparedLayers(layer_folder, root, self._launcher, self._pool)
            )
            undo.pop_all()
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
        if "HOME" not in variables:
            argv = [*_WITHOUT_HOME, *argv]
        cancel = cancel or CancelToken()
        variables[TAG] = token_hex(16)  # as everywhere: a command sees the same variables with every provider
        with open_folder(files, command.cwd) as folder, self._active.track(cancel):
            mounts = self._layout.mounts(confinement)
            cwd = os.path.normpath(os.path.join(files.path, folder.path))
            process = bundle.build_process(
                argv, _encode_variables(variables), to_alias(cwd, mounts) if command.by_alias else cwd
            )
            if any(len(os.fsencode(word)) >= MAX_WORD_BYTES for word in (*process["args"], *process["env"])):
                raise start_error("exec", errno.E2BIG)
            with self._sandbox(mounts, files, confinement) as sandbox:
                return run.follow(
                    lambda stack: self._start_command(stack, sandbox, process, command),
                    timeout=command.timeout,
                    output_limit=command.output_limit,
                    on_chunk=on_chunk,
                    cancel=cancel,
                )

    def close(self) -> None:
        """Cancel the commands that run, end the sandboxes, and refuse new commands. May be called again."""
        self._active.close()
        self._pool.close()
        self._launcher.close()
        self._folder.close()

    def _start_command(
        self, stack: ExitStack, sandbox: GvisorSandbox, process: Mapping[str, Any], command: Command
    ) -> GvisorCommand:
        if command.confinement.layer is not None:
            command.confinement.layer.await_tick()
        command.on_start()
        return GvisorCommand(stack, sandbox, process, self._grace)

    @contextmanager
    def _sandbox(self, mounts: tuple[Mount, ...], files: Root, confinement: Confinement) -> Iterator[GvisorSandbox]:
        resolved = host_paths.resolve_confinement(confinement, files)
        guards = self._layout.guards(resolved, partial(host_paths.lstat_kind_below, files))
        root, guarded = identify_root(files.path), identify_guarded(files, guards)
        key = SandboxKey(mounts, guards, confinement.network, root, guarded)
        sandbox = self._pool.take(key, confinement.layer)
        try:
            yield sandbox
        finally:
            self._pool.put_back(sandbox, key, confinement.layer)

    def _start(self, key: SandboxKey, folder: str, layer: MountedLayer | None) -> GvisorSandbox:
        return GvisorSandbox(
            partial(self._launcher.launch, build_task(self.files, key.guards, layer)),
            self._program,
            folder,
            _copy_attributes(key.mounts, folder),
            network=key.network,
            limits=self._limits,
        )

    def _make_layer(self) -> Layer:
        if self.layers is None:
            raise ProviderUnavailable("There is no folder for layers.")
        return self.layers.make()


def _build_launcher(limits: ResourceLimits, groups: ControlGroups) -> Launcher:
    """Return a launcher that limits the memory, with some 50 MB of the sandbox itself; gVisor holds other limits."""
    memory = limits.memory if "memory" in groups.folders else None
    return Launcher(
        user_namespace=needs_user_namespace(),
        limits=ResourceLimits(None, memory, None),
        groups=groups,
        is_ahead=True,
    )


def _copy_attributes(mounts: Sequence[Mount], folder: str) -> tuple[Mount, ...]:
    """Return the mounts with a copy of git's attributes: the state folder may lie in the workspace and be hidden."""
    copied = []
    for mount in mounts:
        if mount.target == environment.GIT_ATTRIBUTES:
            try:
                mount = replace(mount, source=shutil.copy(mount.source, os.path.join(folder, "attributes")))
            except OSError as error:
                raise ProviderUnavailable(f"The attributes for git cannot be read: {error.strerror}.") from error
        copied.append(mount)
    return tuple(copied)


def _encode_variables(variables: Mapping[str, str]) -> list[str]:
    """Return the variables for runsc, which takes only UTF-8 and would add a HOME of its own if there were none."""
    described = (f"{name}={value}" for name, value in {"HOME": "", **variables}.items())
    return [os.fsencode(variable).decode("utf-8", "replace") for variable in described]


def find_program(program: str | None = None) -> str:
    """Return the path of runsc: the one named, that of $RUNSC_PATH, or that on the PATH."""
    found = shutil.which(program or os.environ.get(PROGRAM_VARIABLE) or "runsc")
    if found is None:
        raise ProviderUnavailable("runsc, the program of gVisor, was not found.", hint=INSTALL)
    return found


def probe(program: str | None = None) -> Probe:
    """Start a sandbox, and return what it can do."""
    if sys.platform != "linux":
        return Probe("gvisor", False, "gVisor is for Linux.")
    try:
        found = find_program(program)
        detail = _describe_program(found)
        with tempfile.TemporaryDirectory(prefix="wap-probe-") as folder:
            has_statx = _try_sandbox(found, folder)
    except WapError as error:
        return Probe("gvisor", False, error.message, fix=error.hint)
    except (OSError, subprocess.SubprocessError) as error:
        return Probe("gvisor", False, f"runsc cannot be run: {error}", fix=INSTALL)
    lacking = "" if has_statx else "; this build fails statx, so `ls` and `stat` do not work in it"
    return Probe(
        "gvisor",
        True,
        detail + lacking,
        fix=None if has_statx else "install a newer build: https://gvisor.dev/docs/user_guide/install/",
        promises={
            "files outside": True,
            "network": True,
            "other processes": True,
            "processes": True,
            "memory": "memory" in find_groups().folders,
            "file size": True,
            "statx": has_statx,
            "niceness": False,
            "no user namespaces": False,
        },
    )


def _describe_program(program: str) -> str:
    version = run_runsc([program, "--version"]).stdout.decode("utf-8", "replace").partition("\n")[0]
    # The flag's help ends with its default, which sandboxes use: newer builds have a better one than older.
    platform = re.search(r"-platform string\n.*\(default \"?(\w+)\"?\)", read_flags(program))
    return f"{version}, platform {platform.group(1) if platform else 'unknown'}"


def _try_sandbox(program: str, folder: str) -> bool:
    """Start a sandbox and return whether statx works in it; raise if it cannot start."""
    workspace, files = os.path.join(os.path.realpath(folder), "workspace"), os.path.join(folder, "sandbox")
    os.mkdir(workspace)
    os.mkdir(files)
    system = (host_paths.resolve_links(path) for path in host_paths.SYSTEM if os.path.exists(path))
    found = os.stat(workspace)
    launcher = Launcher(user_namespace=needs_user_namespace())
    sandbox = GvisorSandbox(
        partial(launcher.launch, NamespaceTask(workspace, (found.st_dev, found.st_ino))),
        program,
        files,
        Layout(workspace, HostPaths(software=tuple(system), temporary=())).mounts(Confinement()),
        network=False,
        limits=ResourceLimits(),
    )
    try:
        ls = bundle.build_process(["ls", workspace], [bundle.SEARCH_PATH], "/")
        return run_runsc(sandbox.prepare_call(ls).argv).returncode == 0
    finally:
        sandbox.end()
