"""Start a sandbox with the masks of the command before, while a walk checks that they are still the right ones.

The walk in search of masks takes a stat for each folder of the workspace, about as long as the sandbox takes to start
where there are thousands. Both happen at the same time, and no command runs before the walk has found the same masks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from wap_kernel.engine.permit import Permit
from wap_kernel.model.command import Confinement, Deadline
from wap_kernel.model.errors import Conflict
from wap_kernel.providers.layers.layer import Layer


class PredictedMasks:
    """The masks that a sandbox starts with; they may be out of date until `check` has passed."""

    def __init__(self, masks: Confinement, find: Callable[[], Confinement]) -> None:
        self.masks = masks
        self._find = find
        self.are_right = False

    def check(self) -> None:
        """Raise Conflict if the workspace needs other masks."""
        if self._find() != self.masks:
            raise Conflict("The workspace holds other protected files than a moment ago.", hint="Try again.")
        self.are_right = True


class MaskPrediction:
    """The masks that were found last for a command on a layer of its own."""

    def __init__(self) -> None:
        self._last: tuple[object, Confinement | None] = (None, None)
        """The function that found them, one for each policy, and the masks."""

    def predict(self, permit: Permit, layer: Layer, deadline: Deadline) -> PredictedMasks | None:
        """Return the masks of the last command with this permit, None where there was none."""
        found_by, masks = self._last
        if masks is None or found_by is not permit.confine or layer.namespaces is not None:
            return None
        return PredictedMasks(masks, partial(self.find, permit, layer, deadline))

    def find(self, permit: Permit, layer: Layer, deadline: Deadline) -> Confinement:
        """Walk over the workspace and return the masks."""
        masks = permit.confine(layer.files, deadline).confinement
        if layer.namespaces is None:
            self._last = permit.confine, masks
        return masks
