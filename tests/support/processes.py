"""Start commands in a folder for tests, also some that try to stay behind, and list processes."""

from __future__ import annotations

import marshal
import os
import time
from collections.abc import Callable
from pathlib import Path

from wap_kernel.model.command import CancelToken, CommandOutcome, OnChunk
from wap_kernel.providers.process import run, supervisor

LONG = 60.0
"""Seconds that no test reaches unless something hangs."""
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fd = os.open(folder, os.O_RDONLY)

    def __call__(
        self,
        command: str,
        *,
        timeout: float = LONG,
        limit: int = 1 << 20,
        grace: float = 0.1,
        environment: dict[str, str] | None = None,
        on_chunk: OnChunk | None = None,
        cancel: CancelToken | None = None,
    ) -> CommandOutcome:
        return run.run(
            run.build_shell_argv(command, ENVIRONMENT["PATH"]),
            cwd=self.fd,
            environment=ENVIRONMENT if environment is None else environment,
            timeout=timeout,
            output_limit=limit,
            grace=grace,
            on_chunk=on_chunk,
            cancel=cancel,
        )

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())


def program(extra: str = "") -> bytes:
    """The supervisor's code as it is sent, with something changed at its end."""
    source = Path(supervisor.__file__).read_text() + extra
    return marshal.dumps(compile(source, supervisor.__file__, "exec"))


def is_alive(pid: int) -> bool:
    process = supervisor.read_process(pid)
    return process is not None and process.state not in "ZX"


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


READY = "until [ -s pid ]; do sleep 0.01; done; echo ready"
SLEEPER = "sh -c 'echo $$ > pid; exec sleep 1000'"
LEFT_BEHIND = {
    "in the background": f"{SLEEPER} & {READY}",
    "with the pipes closed": f"{SLEEPER} >&- 2>&- & {READY}",
    "in a session of its own": f"setsid {SLEEPER} & {READY}",
    "forked twice": f"( ( {SLEEPER} & ) & ); {READY}",
    "forked twice, in a session of its own": f"( ( setsid {SLEEPER} & ) & ); {READY}",
    "deaf to HUP": f"nohup {SLEEPER} & {READY}",
    "deaf to TERM": f"(trap '' TERM; exec {SLEEPER}) & {READY}",
    "deaf to TERM, forked twice, in a session of its own": f"(trap '' TERM; ( setsid {SLEEPER} & ) & ); {READY}",
    "stopped": f"{SLEEPER} & until [ -s pid ]; do sleep 0.01; done; kill -STOP $(cat pid); echo ready",
    "stopped, in a session of its own": (
        f"setsid {SLEEPER} & until [ -s pid ]; do sleep 0.01; done; kill -STOP $(cat pid); echo ready"
    ),
    "answering TERM with another": (
        """(trap 'sh -c "trap \\"\\" TERM; sleep 1000" &' TERM; echo $BASHPID > pid; while :; do sleep 0.01; done) & """
        + READY
    ),
}
