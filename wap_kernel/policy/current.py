"""The policy that binds one caller now: the layers of this machine, narrowed by what the caller's token opens."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.caller import Caller
from wap_kernel.policy.effective import Effective
from wap_kernel.policy.files import PolicyFiles
from wap_kernel.policy.model import Layers
from wap_kernel.policy.paths import PolicyGuard
from wap_kernel.policy.protected import ProtectedPaths

MAX_REMEMBERED = 256
"""Scopes; each token has one."""


@dataclass(frozen=True)
class Binding:
    effective: Effective
    guard: PolicyGuard


class CurrentPolicy:
    """Asked before every operation, on any thread; compiled again only when a layer has changed."""

    def __init__(self, files: PolicyFiles, protected: ProtectedPaths) -> None:
        self._files = files
        self._protected = protected
        self._known: tuple[Effective | None, dict[str | None, tuple[Layers, Binding]]] = (None, {})
        """By token. Layers are compared, not hashed: that takes longer than many an operation."""

    def of(self, caller: Caller) -> Binding:
        common = self._files.effective()
        known_for, bindings = self._known
        if known_for is not common:
            bindings = {}
            self._known = (common, bindings)
        layers = caller.scope.layers if caller.scope is not None else ()
        known, binding = bindings.get(caller.token, (None, None))
        if binding is None or known != layers:
            if len(bindings) >= MAX_REMEMBERED:
                bindings.clear()
            effective = common
            for layer in layers:
                effective = effective.with_layer(layer)
            binding = Binding(effective, PolicyGuard(self._protected, effective))
            bindings[caller.token] = (layers, binding)
        return binding
