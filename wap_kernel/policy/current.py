"""The policy that binds one caller now: the layers of this machine, narrowed by the scope of the caller's token."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.model.caller import Caller
from wap_kernel.model.policy import FilesystemPolicy, Layers, Policy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.layers import PolicyFiles, escape_glob
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

MAX_CACHED = 256
"""Bound policies in the cache; each token has one of its own."""


@dataclass(frozen=True)
class BoundPolicy:
    """The policy of one caller, with the guards that enforce it."""

    effective: EffectivePolicy
    guard: PolicyGuard
    sandbox_guard: PolicyGuard
    """The guard by which a sandbox hides paths. It does not hide what merely lies outside of the operation's folder."""
    by_agent: bool = False
    """True for an agent with a token, false for a person."""


class CurrentPolicy:
    """The policies of all callers, for any thread. Only a layer that changed is compiled again."""

    def __init__(self, files: PolicyFiles, protected: ProtectedPaths) -> None:
        self._files = files
        self._protected = protected
        self._cache: tuple[EffectivePolicy | None, dict[str | None, tuple[Layers, BoundPolicy]]] = (None, {})
        """Bound policies by token. Layers are compared and not hashed: a hash takes longer than many an operation."""
        self._cache_within: dict[tuple[str, bool], tuple[BoundPolicy, Policy | None, BoundPolicy]] = {}

    def bind(self, caller: Caller) -> BoundPolicy:
        """Return the policy that binds `caller` now."""
        common = self._files.effective()
        cached_for, cache = self._cache
        if cached_for is not common:
            cache = {}
            self._cache = (common, cache)
        layers = caller.scope.layers if caller.scope is not None else ()
        cached_layers, policy = cache.get(caller.token, (None, None))
        if policy is None or cached_layers != layers:
            if len(cache) >= MAX_CACHED:
                cache.clear()
            effective = common
            for layer in layers:
                effective = effective.with_layer(layer)
            guard = PolicyGuard(self._protected, effective)
            policy = BoundPolicy(effective, guard, guard, by_agent=caller.token is not None)
            cache[caller.token] = (layers, policy)
        return policy

    def narrow(self, policy: BoundPolicy, folder: str, *, only: bool) -> BoundPolicy:
        """Return `policy` narrowed by the policy file of the real folder `folder`.

        With `only` nothing outside of the folder can be reached.
        """
        layer = self._files.layer_for(folder)
        cached = self._cache_within.get((folder, only))
        if cached is not None and cached[0] is policy and cached[1] is layer:
            return cached[2]
        effective = policy.effective if layer is None else policy.effective.with_layer(layer)
        sandbox_guard = PolicyGuard(self._protected, effective)
        if only:
            inside = escape_glob(folder)
            paths = FilesystemPolicy(allowed_paths=(inside, f"{inside}/**"))
            effective = effective.with_layer(Policy(name="workspaceRoot", filesystem=paths))
        guard = PolicyGuard(self._protected, effective) if only else sandbox_guard
        narrowed = BoundPolicy(effective, guard, sandbox_guard, policy.by_agent)
        if len(self._cache_within) >= MAX_CACHED:
            self._cache_within.clear()
        self._cache_within[folder, only] = (policy, layer, narrowed)
        return narrowed
