"""The gvisor provider: the server's own filesystem, and commands on a kernel of their own (runsc).

A command sees the mounts of `mounts.py` and nothing else; gVisor answers its system calls, not the host's kernel.
`pool.py` keeps sandboxes warm. With the network, a command has the host's, also what listens on the loopback.

`probe` reports what an old build of runsc cannot do. Not prevented: a process on the host replaces a file that is
hidden or read-only in the workspace while a command runs; from then on that command sees the new file.
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
from secrets import token_hex

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Confinement, OnChunk
from wap_kernel.model.errors import Conflict, ProviderUnavailable, WapError
from wap_kernel.providers import host_paths
from wap_kernel.providers.active_commands import ActiveCommands, open_folder
from wap_kernel.providers.base import Probe, ResourceLimits
from wap_kernel.providers.gvisor import bundle
from wap_kernel.providers.gvisor.command import GvisorCommand
from wap_kernel.providers.gvisor.pool import IDLE_SECONDS, PoolFolder, SandboxKey, SandboxPool, read_identities
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox, run_runsc
from wap_kernel.providers.mount_verification import MountVerifier
from wap_kernel.providers.mounts import HostPaths, Layout, Mount, MountKind, expand_copies, to_alias
from wap_kernel.providers.process import environment, run
from wap_kernel.providers.process.supervisor_handle import TAG, start_error
from wap_kernel.providers.resource_limits import ControlGroups, find_groups

PROGRAM_VARIABLE = "RUNSC_PATH"
INSTALL = "apt install runsc, or https://gvisor.dev/docs/user_guide/install/; RUNSC_PATH names one elsewhere"

ATTEMPTS = 5
MAX_WORD_BYTES = 128 * 1024
"""Bytes of one argument or variable. gVisor takes longer ones, but a command should run with every provider."""
_HOST_MOUNT_KINDS = (MountKind.READ_ONLY, MountKind.WRITABLE, MountKind.HIDDEN_FILE, MountKind.HIDDEN_FOLDER)
MAX_HOST_MOUNTS = 200
"""Mounts of host files in one sandbox: runsc has a descriptor for each, uses number 256 itself, and has twenty more."""


class GvisorProvider:
    """The provider that confines commands with gVisor. The caller closes `root` after the provider.

    `secrets` are absolute paths that no command sees, wherever they lie.
    """

    name = "gvisor"
    confines = True

    def __init__(
        self,
        root: Root,
        *,
        secrets: Sequence[str],
        server_environment: Mapping[str, str] | None = None,
        grace: float = run.GRACE,
        resources: ResourceLimits | None = None,
        program: str | None = None,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.files = root
        self._environment = os.environ if server_environment is None else server_environment
        self._grace = grace
        self._limits = resources or ResourceLimits()
        self._groups = find_groups()
        self._program = find_program(program)
        with ExitStack() as undo:
            self._folder = undo.enter_context(closing(PoolFolder(self._program)))
            host = host_paths.gather_host_paths(
                root, environment=self._environment, secrets=(*secrets, self._folder.path)
            )
            self._layout = Layout(root.path, host)
            undo.pop_all()
        self._pool = SandboxPool(self._folder, self._start, idle=idle)
        self._active = ActiveCommands()

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        variables = environment.build_environment(self._environment, command.environment, command.env_allowlist)
        if command.confinement.git_attributes is not None:
            variables |= environment.GIT_ATTRIBUTES_SETTINGS
        argv = run.build_argv(command.command, variables.get("PATH", ""))
        cancel = cancel or CancelToken()
        variables[TAG] = token_hex(16)  # as everywhere: a command sees the same variables with every provider
        with open_folder(self.files, command.cwd) as folder, self._active.track(cancel):
            cwd = os.path.normpath(os.path.join(self.files.path, folder.path))
            if command.by_alias:
                cwd = to_alias(cwd, self._layout.mounts(Confinement()))
            process = bundle.build_process(argv, _encode_variables(variables), cwd)
            if any(len(os.fsencode(word)) >= MAX_WORD_BYTES for word in (*process["args"], *process["env"])):
                raise start_error("exec", errno.E2BIG)
            with self._sandbox(command.confinement) as sandbox:
                return run.follow(
                    lambda stack: GvisorCommand(stack, sandbox, process, self._grace),
                    timeout=command.timeout,
                    output_limit=command.output_limit,
                    on_chunk=on_chunk,
                    cancel=cancel,
                )

    def close(self) -> None:
        """Cancel the commands that run, end the sandboxes, and refuse new commands. May be called again."""
        self._active.close()
        self._pool.close()
        self._folder.close()

    @contextmanager
    def _sandbox(self, confinement: Confinement) -> Iterator[GvisorSandbox]:
        for attempt in range(1, ATTEMPTS + 1):
            mounts = _expand_mounts(self._layout.mounts(host_paths.resolve_confinement(confinement, self.files)))
            key = SandboxKey(mounts, confinement.network, read_identities(mounts, self.files.path))
            try:
                sandbox = self._pool.take(key)
                break
            except Conflict:  # a file of the plan has been moved since
                if attempt == ATTEMPTS:
                    raise
        try:
            yield sandbox
        finally:
            self._pool.put_back(sandbox, key)

    def _start(self, key: SandboxKey, folder: str) -> GvisorSandbox:
        host_mounts = _select_host_mounts(key.mounts)
        verifier = MountVerifier(host_mounts, self.files, checks_flags=False)
        try:
            return GvisorSandbox(
                self._program,
                folder,
                key.mounts,
                network=key.network,
                limits=self._limits,
                groups=self._groups,
                check=verifier.check,
            )
        except (Conflict, ProviderUnavailable) as error:
            if not verifier.is_race(error):
                if len(host_mounts) > MAX_HOST_MOUNTS:
                    raise _too_many_mounts_error(len(host_mounts), error) from error
                raise
            verifier.remove_stray_mount_points()
            raise Conflict(
                "Protected files of the workspace keep changing while the command is being started.",
                hint="Nothing was run. Try again.",
            ) from error


def _select_host_mounts(mounts: Sequence[Mount]) -> list[Mount]:
    return [mount for mount in mounts if mount.kind in _HOST_MOUNT_KINDS]


def _expand_mounts(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return single mounts; where a second mount of every guard is too many, /workspace becomes a link."""
    each = expand_copies(mounts)
    if len(_select_host_mounts(each)) <= MAX_HOST_MOUNTS:
        return each
    return tuple(replace(mount, kind=MountKind.LINK) if mount.kind is MountKind.COPY else mount for mount in mounts)


def _too_many_mounts_error(number: int, error: WapError) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"A sandbox with {number} mounts is too large for gVisor, which takes little more than {MAX_HOST_MOUNTS}: "
        f"{error.message}",
        hint="Make the patterns of policy coarser, so that they name folders, not files.",
    )


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
    platform = re.search(rb"-platform string\n.*\(default \"?(\w+)\"?\)", run_runsc([program, "flags"]).stdout)
    return f"{version}, platform {platform.group(1).decode() if platform else 'unknown'}"


def _try_sandbox(program: str, folder: str) -> bool:
    """Start a sandbox and return whether statx works in it; raise if it cannot start."""
    workspace, files = os.path.join(os.path.realpath(folder), "workspace"), os.path.join(folder, "sandbox")
    os.mkdir(workspace)
    os.mkdir(files)
    system = (host_paths.resolve_links(path) for path in host_paths.SYSTEM if os.path.exists(path))
    sandbox = GvisorSandbox(
        program,
        files,
        _expand_mounts(Layout(workspace, HostPaths(software=tuple(system), temporary=())).mounts(Confinement())),
        network=False,
        limits=ResourceLimits(),
        groups=ControlGroups(),
        check=lambda _: None,
    )
    try:
        ls = bundle.build_process(["ls", workspace], [bundle.SEARCH_PATH], "/")
        return run_runsc(sandbox.prepare_call(ls).argv).returncode == 0
    finally:
        sandbox.end()
