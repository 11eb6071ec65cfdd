"""The kernel process: that of ipykernel, without everything that could run a person's Python."""

from __future__ import annotations

from typing import Any

from ipykernel.kernelapp import IPKernelApp

from wap_kernel.notebook.kernel.kernel import WapKernel


class WapKernelApp(IPKernelApp):
    """The application of the kernel.

    A class writes its files in the folder of a notebook, so nothing is imported or configured from there.
    """

    name = "wap-kernel"
    kernel_class = WapKernel

    def init_io(self) -> None:
        """Leave the output of this process to the server's log; the streams of ipykernel sometimes block its end."""
        self.outstream_class = None  # type: ignore[assignment] # None is allowed, though not by its type
        super().init_io()  # type: ignore[no-untyped-call] # half of ipykernel has types

    def init_path(self) -> None:
        """Leave the path alone: IPython would put the notebook's folder first, and an import would run its files."""

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """Load nothing: the configuration of IPython is Python, and there is no IPython here."""
