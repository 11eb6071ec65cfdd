"""The policy in force: its layers with compiled patterns, combined so that the strictest wins. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

from wap_kernel.files.globs.sets import IncludeSet
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import EffectsPolicy, Layers, Policy
from wap_kernel.policy.paths.patterns import PathPatterns
from wap_kernel.policy.verdict import Verdict, VerdictKind

FileAccess = Literal["none", "read", "read-write"]
ALLOWED_PATHS_SUFFIX = ": allowedPaths"
_BY_STRICTNESS: tuple[FileAccess, ...] = ("none", "read", "read-write")


class CompiledLayer:
    """One policy with its patterns compiled. A bad pattern raises InvalidArgument."""

    def __init__(self, policy: Policy) -> None:
        filesystem = policy.filesystem
        self.policy = policy
        self.denied = PathPatterns(filesystem.denied_paths)
        self.read_only = PathPatterns(filesystem.read_only_paths)
        self.obeyed = PathPatterns(policy.effects.obeyed_files)
        allowed = None if filesystem.allowed_paths is None else IncludeSet(filesystem.allowed_paths)
        self.allowed = None if allowed is None or allowed.everything else allowed
        """The compiled `allowedPaths`; None where the layer allows every path."""


class EffectivePolicy:
    """All layers of a policy combined.

    Every path of every operation is checked against it, so it is compiled once and its minima are cached.
    """

    def __init__(self, layers: Layers, *, compiled: Iterable[CompiledLayer] | None = None) -> None:
        self.compiled = tuple(map(_compile, layers) if compiled is None else compiled)
        self.layers = tuple(layer.policy for layer in self.compiled)
        self._denying_layers = tuple(layer for layer in self.compiled if layer.denied)
        self._read_only_layers = tuple(layer for layer in self.compiled if layer.read_only)
        self._obeyed_layers = tuple(layer for layer in self.compiled if layer.obeyed)
        self._allowing_layers = tuple((layer, layer.allowed) for layer in self.compiled if layer.allowed is not None)

    def with_layer(self, policy: Policy) -> EffectivePolicy:
        """Return the policy narrowed by one more layer, such as an agent token's scope."""
        return EffectivePolicy((), compiled=(*self.compiled, _compile(policy)))

    # -- combined settings

    @cached_property
    def broken(self) -> Verdict | None:
        """The verdict that denies every operation, where a layer could not be read."""
        for policy in self.layers:
            if policy.broken is not None:
                return Verdict(
                    VerdictKind.DENY,
                    "broken policy",
                    f"The policy {policy.name} cannot be used: {policy.broken}",
                    "Everything is refused until it is corrected.",
                    closes_path=True,
                    grantable=False,
                )
        return None

    @cached_property
    def only_guard_decides(self) -> bool:
        """Return whether nothing but the guard, the size limits and `find_obeyed` has a say on reading and creating.

        That is so where no layer is broken and no layer requires a confirmation. It is sufficient, because `decide`
        draws its verdicts on reading and creating files from five sources only: a broken layer, the paths, the sizes,
        the obeyed files, and `confirmationRequired`. The guard checks the paths by the same functions when a file is
        opened, so the two agree on every path that has no link in it. `max_file_size` and `max_edit_size` are for the
        caller to compare, and a file that `find_obeyed` finds is not for the caller to write: it asks. Grants need
        not be looked up, since nothing else asks.
        """
        return self.broken is None and not any(policy.confirmation_required for policy in self.layers)

    @property
    def has_closed_paths(self) -> bool:
        return bool(self._denying_layers or self._allowing_layers)

    @cached_property
    def access(self) -> FileAccess:
        return min((policy.filesystem.access for policy in self.layers), key=_BY_STRICTNESS.index, default="read-write")

    @cached_property
    def max_file_size(self) -> int | None:
        return _least(policy.filesystem.max_file_size for policy in self.layers)

    @cached_property
    def max_edit_size(self) -> int | None:
        return _least(policy.filesystem.max_edit_size for policy in self.layers)

    @cached_property
    def max_timeout_ms(self) -> int | None:
        return _least(policy.shell.max_timeout_ms for policy in self.layers)

    @cached_property
    def env_allowlist(self) -> frozenset[str] | None:
        lists = [frozenset(found) for policy in self.layers if (found := policy.shell.env_allowlist) is not None]
        return frozenset.intersection(*lists) if lists else None

    @cached_property
    def preview(self) -> bool:
        """Return whether a command may run on its Layer before a person decides about it."""
        return all(policy.shell.preview for policy in self.layers)

    @cached_property
    def effects(self) -> EffectsPolicy:
        """Return the limits on changes that all layers set together; `find_obeyed` has their patterns."""
        effects = [policy.effects for policy in self.layers]
        return EffectsPolicy(
            obeyed_files=tuple(dict.fromkeys(pattern for each in effects for pattern in each.obeyed_files)),
            max_deletions=_least(each.max_deletions for each in effects),
            max_changes=_least(each.max_changes for each in effects),
            max_bytes=_least(each.max_bytes for each in effects),
            unkept=max((each.unkept for each in effects), key=lambda kind: kind.strictness, default=VerdictKind.ALLOW),
        )

    @cached_property
    def shell_enabled(self) -> bool:
        return all(policy.shell.enabled for policy in self.layers)

    def allows_network(self, granted: Sequence[bool] | None = None) -> bool:
        """Return whether every layer opens the network. `granted` says, layer by layer, where a command's rule does."""
        by_rule = [False] * len(self.layers) if granted is None else granted
        return all(policy.network.access == "full" or rule for policy, rule in zip(self.layers, by_rule, strict=True))

    # -- paths

    def refusal(self, path: str, access: Access, *, folder: bool = False) -> Verdict | None:
        """Return the verdict that refuses `access` to the real path `path`, or None.

        With `folder` the path is known to be a folder: one on the way to something that `allowedPaths` selects may be
        listed and created, whereas a file of that name may not be read.
        """
        if self.broken is not None:
            return self.broken
        if self.access == "none":
            return _refuse("filesystem.access", "Filesystem access is disabled")
        for layer in self._denying_layers:
            if (pattern := layer.denied.find(path, folder=folder)) is not None:
                return _refuse_match(layer, "deniedPaths", pattern, f'Path "{path}" is denied by policy')
        if access is Access.WRITE:
            if self.access == "read":
                return _refuse("filesystem.access", "Filesystem is read-only")
            for layer in self._read_only_layers:
                if (pattern := layer.read_only.find(path, folder=folder)) is not None:
                    return _refuse_match(layer, "readOnlyPaths", pattern, f'Path "{path}" is read-only')
        for layer, allowed in self._allowing_layers:
            if not (allowed.matches(path) or (folder and allowed.leads_on(path)) or path == "."):
                listed = ", ".join(layer.policy.filesystem.allowed_paths or ())
                rule = f"{layer.policy.name}{ALLOWED_PATHS_SUFFIX}"
                return _refuse(rule, f'Path "{path}" is not in allowed paths', f"Allowed paths: {listed or 'none'}")
        return None

    def hidden_among(
        self, folder: str, names: Sequence[str], folders: Callable[[], Collection[str]]
    ) -> Collection[str]:
        """Return the entries that must not appear in a listing of `folder`."""
        if self.broken is not None or self.access == "none":
            return set(names)
        hidden: set[str] = set()
        for layer in self._denying_layers:
            hidden |= layer.denied.among(folder, names, folders)
        for _, allowed in self._allowing_layers:
            hidden |= allowed.unselected(folder, names, folders)
        return hidden

    def read_only_among(
        self, folder: str, names: Sequence[str], folders: Callable[[], Collection[str]]
    ) -> Collection[str]:
        """Return the entries of `folder` that can be read but not changed, while the rest of it can."""
        return {name for layer in self._read_only_layers for name in layer.read_only.among(folder, names, folders)}

    def find_obeyed(self, path: str) -> str | None:
        """Return the pattern of `effects.obeyedFiles` that covers `path`, or None."""
        found = (layer.obeyed.find(path) for layer in self._obeyed_layers)
        return next((pattern for pattern in found if pattern is not None), None)

    def obeyed_among(self, folder: str, names: Sequence[str]) -> Collection[str]:
        """Return the entries of `folder` that `find_obeyed` finds."""
        if self.find_obeyed(folder) is not None:
            return names
        return {name for layer in self._obeyed_layers for name in layer.obeyed.among(folder, names, tuple)}

    def may_hold(self, folder: str) -> bool:
        """Return whether moving `folder` may free something below it from a pattern.

        Then everything below it must be checked before the move.
        """
        return any(
            layer.denied.may_hold(folder)
            or layer.read_only.may_hold(folder)
            or (layer.allowed is not None and not layer.allowed.covers(folder))
            for layer in self.compiled
        )

    def to_dict(self) -> dict[str, Any]:
        """Return each layer and the combined settings as JSON data, for people and programs."""
        effective = {
            "access": self.access,
            "maxFileSize": self.max_file_size,
            "maxEditSize": self.max_edit_size,
            "shell": self.shell_enabled,
            "maxTimeoutMs": self.max_timeout_ms,
            "envAllowlist": None if self.env_allowlist is None else sorted(self.env_allowlist),
            "preview": None if self.preview else False,
            "effects": self.effects.model_dump(mode="json", by_alias=True, exclude_defaults=True) or None,
            "network": "full" if self.allows_network() else "none",
            "confirmationRequired": sorted({name for policy in self.layers for name in policy.confirmation_required}),
            "broken": self.broken.reason if self.broken else None,
        }
        layers = [policy.model_dump(mode="json", by_alias=True, exclude_defaults=True) for policy in self.layers]
        return {
            "layers": [{"name": policy.name, **layer} for policy, layer in zip(self.layers, layers, strict=True)],
            "effective": {name: value for name, value in effective.items() if value is not None},
        }


def _compile(policy: Policy) -> CompiledLayer:
    try:
        return CompiledLayer(policy)
    except InvalidArgument as error:  # `parse.py` reports it for a file; a policy may also come from elsewhere
        return CompiledLayer(Policy(name=policy.name, broken=error.text))


def is_allowed_paths_rule(rule: str) -> bool:
    """Return whether `rule` refuses a path because `allowedPaths` does not list it."""
    return rule.endswith(ALLOWED_PATHS_SUFFIX)


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _refuse(rule: str, reason: str, suggestion: str | None = None) -> Verdict:
    return Verdict(VerdictKind.DENY, rule, reason, suggestion, closes_path=True)


def _refuse_match(layer: CompiledLayer, field: str, pattern: str, reason: str) -> Verdict:
    name = layer.policy.name
    return _refuse(f"{name}: {pattern}", reason, f'It matches "{pattern}" in {field} of {name}.')
