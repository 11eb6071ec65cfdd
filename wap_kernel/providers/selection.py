"""Which provider serves a workspace: the one that was named, or the best that works here."""

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
class Choice:
    provider: Provider
    reason: str
    """Why this one, for people."""


@dataclass(frozen=True)
class _Circumstances:
    """What every provider is made from."""

    root: Root
    secrets: Sequence[str]
    server_environment: Mapping[str, str] | None
    grace: float
    resources: ResourceLimits


def choose(
    name: str,
    root: Root,
    *,
    secrets: Sequence[str],
    server_environment: Mapping[str, str] | None = None,
    grace: float = run.GRACE,
    resources: ResourceLimits | None = None,
) -> Choice:
    """`auto` takes bubblewrap when it works, else local. One that is named and cannot start raises: whoever asked for a
    sandbox does not want to do without."""
    if name not in NAMES:
        raise InvalidArgument(f"There is no provider named {name!r}.", hint=f"Choose one of: {', '.join(NAMES)}.")
    circumstances = _Circumstances(root, secrets, server_environment, grace, resources or ResourceLimits())
    if name == "local":
        return Choice(_local(circumstances), "It was named; it does not confine commands.")
    candidate = "bubblewrap" if name == AUTO else name
    found = probe(candidate)
    if found.works:
        reason = "It was named" if name != AUTO else "It works on this machine"
        return Choice(_SANDBOXES[candidate](circumstances), f"{reason}: {found.detail}.")
    if name == AUTO:
        todo = f" To change that: {found.fix}" if found.fix else ""
        why = found.detail.removesuffix(".")
        return Choice(_local(circumstances), f"No sandbox works here, so commands are not confined: {why}.{todo}")
    raise ProviderUnavailable(
        f"The provider {name} cannot start: {found.detail}", hint=found.fix or "`wap doctor` tells more.", provider=name
    )


def probe(name: str) -> Probe:
    """What a provider finds out about this machine. gVisor takes its time; bubblewrap some 20 ms."""
    return _PROBES[name]()


def _local(given: _Circumstances) -> Provider:
    from wap_kernel.providers.local import LocalProvider

    return LocalProvider(given.root, server_environment=given.server_environment, grace=given.grace)


def _bubblewrap(given: _Circumstances) -> Provider:
    from wap_kernel.providers.bubblewrap import BubblewrapProvider

    return BubblewrapProvider(
        given.root,
        secrets=given.secrets,
        server_environment=environment.for_sandbox(given.server_environment or os.environ),
        grace=given.grace,
        resources=given.resources,
    )


def _gvisor(given: _Circumstances) -> Provider:
    from wap_kernel.providers.gvisor.provider import GvisorProvider

    return GvisorProvider(
        given.root,
        secrets=given.secrets,
        server_environment=environment.for_sandbox(given.server_environment or os.environ),
        grace=given.grace,
        resources=given.resources,
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
_SANDBOXES: Mapping[str, Callable[[_Circumstances], Provider]] = {"bubblewrap": _bubblewrap, "gvisor": _gvisor}
_PROBES: Mapping[str, Callable[[], Probe]] = {
    "local": _probe_local,
    "bubblewrap": _probe_bubblewrap,
    "gvisor": _probe_gvisor,
}
