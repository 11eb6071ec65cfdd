"""Start the kernel as `python -m wap_kernel.notebook.kernel`."""

from __future__ import annotations

from wap_kernel.notebook.kernel.app import WapKernelApp

if __name__ == "__main__":
    WapKernelApp.launch_instance()
