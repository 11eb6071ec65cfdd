"""A real `wap` kernel, by the kernelspec of this repository, and what it says."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

import wap_kernel

SECONDS = 90.0
"""What anything may take at most."""
KERNELSPEC = Path(wap_kernel.__file__).parent / "kernelspec"


@dataclass
class Said:
    """What came of a cell: the reply, and what was published for it."""

    reply: dict[str, Any]
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.messages]

    @property
    def texts(self) -> list[str]:
        """The outputs as a saved notebook would have them: what was drawn again stands there once."""
        shown: dict[str, str] = {}
        for kind, content in self.messages:
            if "data" in content:
                drawn = content.get("transient", {}).get("display_id", f"{kind}-{len(shown)}")
                shown[drawn] = content["data"]["text/plain"]
        return list(shown.values())

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class Talk:
    """With one kernel, as a frontend talks."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client

    def begin(self, code: str, **options: Any) -> str:
        return self.client.execute(code, **options)

    def published(self, request: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Until the kernel is idle again."""
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind not in ("status", "execute_input"):
                yield kind, content

    def reply(self, request: str) -> dict[str, Any]:
        while True:
            message = self.client.get_shell_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    def run(self, code: str, **options: Any) -> Said:
        request = self.begin(code, **options)
        messages = list(self.published(request))
        return Said(self.reply(request), messages)

    def complete(self, code: str, cursor: int | None = None) -> list[str]:
        return self.reply(self.client.complete(code, cursor))["matches"]

    def complete_until(self, code: str, expected: Collection[str]) -> list[str]:
        """What completes, once that is expected: what a busy machine has not said in time is there with a later Tab."""
        deadline = time.monotonic() + SECONDS
        while (found := self.complete(code)) != [*expected] and time.monotonic() < deadline:
            pass
        return found

    def inspect(self, code: str, cursor: int | None = None) -> str:
        data = self.reply(self.client.inspect(code, cursor))["data"]
        return data.get("text/plain", "")


def isolated(folder: Path) -> dict[str, str]:
    """An environment with Jupyter's folders in `folder`, and no server in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER", "WAP_"))}
    places = {name: str(folder / name.lower()) for name in ("DATA", "CONFIG", "RUNTIME")}
    return {
        **kept,
        **{f"JUPYTER_{name}_DIR": place for name, place in places.items()},
        "IPYTHONDIR": str(folder / "ipython"),
    }


def kernel_manager(folder: Path) -> KernelManager:
    """Of the kernelspec as it is in this repository, whatever is installed."""
    shutil.copytree(KERNELSPEC, folder / "kernels" / "wap", dirs_exist_ok=True)
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)
    return KernelManager(kernel_name="wap", kernel_spec_manager=specs, connection_file=str(folder / "connection.json"))


@contextmanager
def running_kernel(
    workspace: Path, folder: Path, more: Mapping[str, str] | None = None
) -> Iterator[tuple[Talk, KernelManager]]:
    """With the engine of its own on `workspace`; everything else is in `folder`."""
    manager = kernel_manager(folder)
    manager.shutdown_wait_time = SECONDS  # how busy the machine is does not matter to how a kernel ends
    manager.start_kernel(cwd=str(workspace), env={**isolated(folder), **(more or {})})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        yield Talk(client), manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
        manager.cleanup_resources()
