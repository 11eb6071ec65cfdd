"""Choose the provider of a workspace: the configured one, or the best that works on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.providers.base import Probe, Provider, ResourceLimits
from wap_kernel.providers.process import environment, run

AUTO = "auto"
NAMES = (AUTO, "local", "bubblewrap", "gvisor")


@dataclass(frozen=True)
class ProviderChoice:
    """The chosen provider."""

    provider: Provider
    reason: str
    """The reason for the choice, for people."""


@dataclass(frozen=True)
class _ProviderOptions:
    """The arguments that every provider is created from."""

    root: Root
    secrets: Sequence[str]
    server_environment: Mapping[str, str] | None
    grace: float
    resources: ResourceLimits
    state_dir: str | None
    """The state folder, in which layers lie if its filesystem can carry them. None: commands share the workspace."""


def choose(
    name: str,
    root: Root,
    *,
    secrets: Sequence[str],
    server_environment: Mapping[str, str] | None = None,
    grace: float = run.GRACE,
    resources: ResourceLimits | None = None,
    state_dir: str | None = None,
) -> ProviderChoice:
    """Create the provider `name`; `auto` takes bubblewrap when it works, else local.

    Raises ProviderUnavailable for a sandbox that is configured and cannot start: its administrator does not want
    commands without one.
    """
    if name not in NAMES:
        raise InvalidArgument(f"There is no provider named {name!r}.", hint=f"Choose one of: {', '.join(NAMES)}.")
    options = _ProviderOptions(root, secrets, server_environment, grace, resources or ResourceLimits(), state_dir)
    if name == "local":
        return ProviderChoice(
            _create_local(options), 'Provider "local" was chosen in the configuration; it does not confine commands.'
        )
    candidate = "bubblewrap" if name == AUTO else name
    probed = probe(candidate)
    if probed.works:
        reason = "was chosen in the configuration" if name != AUTO else "works on this machine"
        return ProviderChoice(_SANDBOXES[candidate](options), f'Provider "{candidate}" {reason}: {probed.detail}.')
    if name == AUTO:
        fix = f" To change that: {probed.fix}" if probed.fix else ""
        detail = probed.detail.removesuffix(".")
        return ProviderChoice(
            _create_local(options), f"No sandbox works on this machine, so commands are not confined: {detail}.{fix}"
        )
    raise ProviderUnavailable(
        f"The provider {name} cannot start: {probed.detail}",
        hint=probed.fix or "Run `wap doctor` for details.",
        provider=name,
    )


def probe(name: str) -> Probe:
    """Return a provider's findings about this machine. gVisor's probe is slow; bubblewrap's takes some 20 ms."""
    return _PROBES[name]()


def _create_local(options: _ProviderOptions) -> Provider:
    from wap_kernel.providers.local import LocalProvider

    return LocalProvider(options.root, server_environment=options.server_environment, grace=options.grace)


def _create_bubblewrap(options: _ProviderOptions) -> Provider:
    from wap_kernel.providers.bubblewrap import BubblewrapProvider

    return BubblewrapProvider(
        options.root,
        secrets=options.secrets,
        server_environment=environment.restrict_search_path(options.server_environment or os.environ),
        grace=options.grace,
        resources=options.resources,
        layer_folder=_find_layer_folder(options),
    )


def _find_layer_folder(options: _ProviderOptions) -> str | None:
    from wap_kernel.providers.layers.probe import find_layer_folder

    return None if options.state_dir is None else find_layer_folder(options.root.path, options.state_dir).folder


def _create_gvisor(options: _ProviderOptions) -> Provider:
    from wap_kernel.providers.gvisor.provider import GvisorProvider

    return GvisorProvider(
        options.root,
        secrets=options.secrets,
        server_environment=environment.restrict_search_path(options.server_environment or os.environ),
        grace=options.grace,
        resources=options.resources,
        layer_folder=_find_layer_folder(options),
    )


def _probe_local() -> Probe:
    return Probe("local", True, "the server's own rights", promises=dict.fromkeys(_PROMISES, False))


def _probe_bubblewrap() -> Probe:
    from wap_kernel.providers import bubblewrap

    return bubblewrap.probe()


def _probe_gvisor() -> Probe:
    from wap_kernel.providers.gvisor import provider as gvisor

    return gvisor.probe()


_PROMISES = ("files outside", "network", "other processes", "processes", "memory", "file size")
_SANDBOXES: Mapping[str, Callable[[_ProviderOptions], Provider]] = {
    "bubblewrap": _create_bubblewrap,
    "gvisor": _create_gvisor,
}
_PROBES: Mapping[str, Callable[[], Probe]] = {
    "local": _probe_local,
    "bubblewrap": _probe_bubblewrap,
    "gvisor": _probe_gvisor,
}
