"""The local provider: the server's own filesystem and processes.

Commands are not confined: they have the rights of the server. `process/supervisor_handle.py` says which processes can
outlive their command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk
from wap_kernel.providers import resource_limits
from wap_kernel.providers.active_commands import ActiveCommands, open_folder
from wap_kernel.providers.process import environment, run


class LocalProvider:
    """The provider without confinement. The caller closes `root` after the provider."""

    name = "local"
    confines = False
    checks_while_starting = False
    layers = None

    def __init__(
        self, root: Root, *, server_environment: Mapping[str, str] | None = None, grace: float = run.GRACE
    ) -> None:
        self.files = root
        self._environment = os.environ if server_environment is None else server_environment
        self._grace = grace
        self._groups = resource_limits.find_groups()
        self._active = ActiveCommands()

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        variables = environment.build_environment(self._environment, command.environment, command.env_allowlist)
        argv = run.build_argv(command.command, variables.get("PATH", ""))
        cancel = cancel or CancelToken()
        with open_folder(self.files, command.cwd) as folder, self._active.track(cancel):
            command.on_start()
            return run.run(
                argv,
                cwd=folder.fd,
                environment=variables,
                timeout=command.timeout,
                output_limit=command.output_limit,
                grace=self._grace,
                on_chunk=on_chunk,
                cancel=cancel,
                make_group=partial(resource_limits.create_group, self._groups),
            )

    def close(self) -> None:
        self._active.close()
