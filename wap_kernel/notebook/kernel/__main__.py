"""`python -m wap_kernel.kernel`"""

from __future__ import annotations

from wap_kernel.kernel.app import WapKernelApp

if __name__ == "__main__":
    WapKernelApp.launch_instance()
