"""A kernel spec manager for classrooms: start no kernel but the allowed ones.

Jupyter only hides the other kernels from its lists; a client that names one can still start it.
"""

from __future__ import annotations

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel


class AllowedKernels(KernelSpecManager):
    """A kernel spec manager that knows only the kernels in `allowed_kernelspecs`.

    Set `c.ServerApp.kernel_spec_manager_class = "jupyter_ext.kernels.AllowedKernels"` together with
    `c.KernelSpecManager.allowed_kernelspecs = {"wap"}`.
    """

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        allowed = {name.lower() for name in self.allowed_kernelspecs}
        if allowed and kernel_name.lower() not in allowed:
            raise NoSuchKernel(kernel_name)
        return super().get_kernel_spec(kernel_name)
