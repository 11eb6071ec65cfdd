"""The policy that binds one caller now: the layers of this machine, narrowed by what the caller's token opens."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.model.caller import Caller
from wap_kernel.model.policy import FilesystemPolicy, Layers, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.layers import PolicyFiles, literally
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

MAX_REMEMBERED = 256
"""Scopes; each token has one."""


@dataclass(frozen=True)
class BoundPolicy:
    effective: EffectivePolicy
    guard: PolicyGuard
    hiding: PolicyGuard
    """What a sandbox hides: not what only lies outside of the folder that an operation stays in."""


class CurrentPolicy:
    """Asked before every operation, on any thread; compiled again only when a layer has changed."""

    def __init__(self, files: PolicyFiles, protected: ProtectedPaths) -> None:
        self._files = files
        self._protected = protected
        self._known: tuple[EffectivePolicy | None, dict[str | None, tuple[Layers, BoundPolicy]]] = (None, {})
        """By token. Layers are compared, not hashed: that takes longer than many an operation."""
        self._within: dict[tuple[str, bool], tuple[BoundPolicy, Policy | None, BoundPolicy]] = {}

    def of(self, caller: Caller) -> BoundPolicy:
        return self._bound(self._files.effective(), caller)

    def _bound(self, common: EffectivePolicy, caller: Caller) -> BoundPolicy:
        known_for, bindings = self._known
        if known_for is not common:
            bindings = {}
            self._known = (common, bindings)
        layers = _scope(caller)
        known, binding = bindings.get(caller.token, (None, None))
        if binding is None or known != layers:
            if len(bindings) >= MAX_REMEMBERED:
                bindings.clear()
            effective = common
            for layer in layers:
                effective = effective.with_layer(layer)
            guard = PolicyGuard(self._protected, effective)
            binding = BoundPolicy(effective, guard, guard)
            bindings[caller.token] = (layers, binding)
        return binding

    def within(self, binding: BoundPolicy, folder: str, *, only: bool) -> BoundPolicy:
        """Narrowed by the policy file of the real folder `folder`; with `only` nothing outside of it can be reached."""
        layer = self._files.layer_for(folder)
        known = self._within.get((folder, only))
        if known is not None and known[0] is binding and known[1] is layer:
            return known[2]
        effective = binding.effective if layer is None else binding.effective.with_layer(layer)
        hiding = PolicyGuard(self._protected, effective)
        if only:
            inside = literally(folder)
            paths = FilesystemPolicy(allowed_paths=(inside, f"{inside}/**"))
            effective = effective.with_layer(Policy(name="workspaceRoot", filesystem=paths))
        narrowed = BoundPolicy(effective, PolicyGuard(self._protected, effective) if only else hiding, hiding)
        if len(self._within) >= MAX_REMEMBERED:
            self._within.clear()
        self._within[folder, only] = (binding, layer, narrowed)
        return narrowed


def _scope(caller: Caller) -> Layers:
    return caller.scope.layers if caller.scope is not None else ()
