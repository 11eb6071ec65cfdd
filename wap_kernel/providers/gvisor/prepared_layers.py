"""Hand out the layers of sandboxes that are prepared already."""

from __future__ import annotations

from wap_kernel.files.contained.root import Root
from wap_kernel.providers.gvisor.pool import SandboxPool, identify_root
from wap_kernel.providers.layers.launcher import Launcher
from wap_kernel.providers.layers.layer import Layer, LayerDescription, LayerStore


class PreparedLayer(Layer):
    """A layer that is mounted in one place only: in the sandbox that was prepared on it, or where it is held."""

    def __init__(
        self, folder: str, root: Root, launcher: Launcher, description: LayerDescription, pool: SandboxPool
    ) -> None:
        super().__init__(folder, root, launcher, description)
        self._pool = pool

    def hold(self) -> int:
        if self.namespaces is None:
            self._pool.end_sandboxes_on(self)
        return super().hold()

    def release(self) -> None:
        self._pool.end_sandboxes_on(self)
        super().release()


class PreparedLayers(LayerStore):
    """The layers of a workspace whose commands run in the sandboxes of `pool`."""

    def __init__(self, folder: str, root: Root, launcher: Launcher, pool: SandboxPool) -> None:
        super().__init__(folder, root, launcher)
        self._pool = pool

    def create(self) -> Layer:
        """Return the layer of a prepared sandbox, or make one."""
        return self._pool.claim_layer(identify_root(self._root.path)) or self.make()

    def make(self) -> Layer:
        """Make a layer for a sandbox that is to be prepared."""
        return super().create()

    def _open(self, folder: str, description: LayerDescription) -> Layer:
        return PreparedLayer(folder, self._root, self._launcher, description, self._pool)
