"""The process of a kernel: ipykernel's, less everything in it that could run a person's Python."""

from __future__ import annotations

from typing import Any

from ipykernel.kernelapp import IPKernelApp

from wap_kernel.notebook.kernel.kernel import WapKernel


class WapKernelApp(IPKernelApp):
    """The folder of a notebook is where a class writes its files: nothing is ever imported or configured from it."""

    name = "wap-kernel"
    kernel_class = WapKernel

    def init_io(self) -> None:
        """What this process prints is for the server's log. ipykernel's own streams keep it from ending at times."""
        self.outstream_class = None  # type: ignore[assignment] # it may be None, its type does not say so
        super().init_io()  # type: ignore[no-untyped-call] # half of ipykernel has types

    def init_path(self) -> None:
        """IPython would put the notebook's folder first, and the next import would run a file from it."""

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """IPython's configuration is Python, and there is no IPython here to configure."""
