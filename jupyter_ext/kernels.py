"""For whoever hands a class a server: no kernel but those that are allowed.

Jupyter leaves the others out of its lists and starts them all the same when somebody names them.
"""

from __future__ import annotations

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel


class AllowedKernels(KernelSpecManager):
    """`c.ServerApp.kernel_spec_manager_class = "jupyter_ext.kernels.AllowedKernels"`, with
    `c.KernelSpecManager.allowed_kernelspecs = {"wap"}`."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        allowed = {name.lower() for name in self.allowed_kernelspecs}
        if allowed and kernel_name.lower() not in allowed:
            raise NoSuchKernel(kernel_name)
        return super().get_kernel_spec(kernel_name)
