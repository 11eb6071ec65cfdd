"""Run `wap doctor`: check this machine and its providers, and say how to fix what does not work.

The command starts every provider, and runs a command with the configured one in the folder to be served. The exit
status is that of this last trial: 0 when commands will run there as configured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from wap_kernel.cli.machine_checks import MACHINE, Finding, State, check_git_credential, check_layers
from wap_kernel.engine.jupyter_config import read_settings
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Command, Confinement, Deadline
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable, WapError, translate_os_error
from wap_kernel.model.package import __version__
from wap_kernel.model.policy import Policy
from wap_kernel.policy import presets
from wap_kernel.policy.layers import PolicyFiles
from wap_kernel.policy.parse import merge_policy
from wap_kernel.policy.paths import sandbox_masks
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.providers import selection
from wap_kernel.providers.base import Probe, ResourceLimits
from wap_kernel.state.directory import default_state_dir

PROVIDERS = tuple(name for name in selection.NAMES if name != selection.AUTO)
TRIAL_SECONDS = 30.0


@dataclass(frozen=True)
class ConfiguredProvider:
    """The configured provider, and the result of its trial in the folder to be served."""

    setting: str
    works: bool
    chosen: str | None
    confines: bool
    detail: str
    fix: str | None = None


@dataclass(frozen=True)
class DoctorReport:
    """The findings of `wap doctor`."""

    version: str
    root: str
    machine: tuple[Finding, ...]
    providers: tuple[Probe, ...]
    configured: ConfiguredProvider
    limits: ResourceLimits
    policy: tuple[Finding, ...]


# -- the folder


class _NoJournal:
    """A journal for a root that writes nothing."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


def examine_folder(
    root: str, provider: str | None = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> DoctorReport:
    """Check the machine, the providers and the policy for `root`.

    `settings` are the configured traits of `WapExtension`. Raise for a folder that cannot be opened, for a provider
    that does not exist, and on Windows.
    """
    if sys.platform == "win32":
        raise ProviderUnavailable(
            "wap does not run on Windows itself.", hint="Run Jupyter inside WSL (Windows Subsystem for Linux)."
        )
    provider = (provider or str(settings.get("provider", selection.AUTO))).lower()
    if provider not in selection.NAMES:
        raise InvalidArgument(
            f"There is no provider named {provider!r}.", hint=f"Choose one of: {', '.join(selection.NAMES)}."
        )
    state_dir = str(settings.get("state_dir") or default_state_dir(root))
    guard = find_protected_paths(root, state_dir)
    with ExitStack() as stack:
        try:
            files = stack.enter_context(closing(Root(root, guard=guard, journal=_NoJournal())))
        except OSError as error:
            raise translate_os_error(error, root) from error
        preset = merge_policy(
            presets.load_preset(str(settings.get("preset", presets.DEFAULT)).lower()), settings.get("policy", {})
        )
        effective = PolicyFiles(files, preset=preset).effective()
        return DoctorReport(
            version=__version__,
            root=files.path,
            machine=(
                *(check() for check in MACHINE),
                check_layers(files.path, state_dir),
                *check_git_credential(settings.get("git")),
            ),
            providers=tuple(selection.probe(name) for name in PROVIDERS),
            configured=_try_provider(provider, files, PolicyGuard(guard, effective)),
            limits=ResourceLimits(),
            policy=tuple(_check_policy(effective.layers, preset)),
        )


def _try_provider(name: str, files: Root, guard: PolicyGuard) -> ConfiguredProvider:
    """Run a command with all masks of the folder, since these can be too many for a sandbox."""
    try:
        choice = selection.choose(name, files, secrets=guard.protected.secrets)
        with closing(choice.provider) as provider:
            confinement, hidden = Confinement(), ""
            if provider.confines and guard.effective.broken is None:
                confinement = _confinement(files, guard)
                number = len(confinement.hidden)
                paths = "1 path of this folder is" if number == 1 else f"{number} paths of this folder are"
                hidden = f" {paths} hidden from commands."
            outcome = provider.run(
                Command(("true",), timeout=TRIAL_SECONDS, output_limit=1000, confinement=confinement)
            )
            if outcome.exit_code != 0:
                raise ProviderUnavailable(f"`true` ended with {outcome.exit_code}: {outcome.stderr.strip()}")
            return ConfiguredProvider(name, True, provider.name, provider.confines, choice.reason + hidden)
    except WapError as error:
        return ConfiguredProvider(name, False, None, False, error.message, error.hint)


def _confinement(files: Root, guard: PolicyGuard) -> Confinement:
    is_read_only = guard.effective.access == "read"
    walked = sandbox_masks.find_masks(
        files, guard, (), Deadline(TRIAL_SECONDS), network=False, is_read_only=is_read_only
    )
    return walked.confinement


def _check_policy(layers: Iterable[Policy], preset: Policy) -> Iterator[Finding]:
    for layer in layers:
        if layer.broken is not None:
            yield Finding(layer.name, "missing", f"everything is denied: {layer.broken}", "correct the file")
        elif layer is preset:
            yield Finding(layer.name, "ok", "the preset")
        else:
            yield Finding(layer.name, "ok", "narrows what the preset allows")


# -- rendering

STATE_MARKS: Mapping[State, str] = {"ok": "ok", "limited": "--", "missing": "!!"}
PROMISES = {
    "files outside": "nothing outside the workspace is seen or changed",
    "network": "no network unless policy grants it",
    "other processes": "no other process is seen or signalled",
    "processes": "at most {processes} processes",
    "memory": "at most {memory} bytes of memory",
    "file size": "at most {file_size} bytes in a file",
}
_WIDTH = 18


def to_dict(report: DoctorReport) -> dict[str, Any]:
    """Return the report for `--json`, with the content that people read."""
    return {**asdict(report), "ok": report.configured.works, "auto": _auto_choice(report)}


def _auto_choice(report: DoctorReport) -> str:
    working = {probe.name for probe in report.providers if probe.works}
    return "bubblewrap" if "bubblewrap" in working else "local"


def render_report(report: DoctorReport) -> Iterator[str]:
    """Yield the report as lines for people."""
    yield f"wap {report.version}, for {report.root}"
    yield from _section("This machine", report.machine)
    probes = [Finding(p.name, "ok" if p.works else "limited", p.detail, p.fix) for p in report.providers]
    yield from _section("Providers", probes)
    yield ""
    yield f"{'What they promise here':50}" + "".join(f"{probe.name:>12}" for probe in report.providers)
    for promise, text in PROMISES.items():
        words = ("-" if not p.works else "held" if p.promises.get(promise) else "not held" for p in report.providers)
        yield f"  {text.format(**asdict(report.limits)):48}" + "".join(f"{word:>12}" for word in words)
    yield from _section("Policy", report.policy)
    yield ""
    yield f"auto takes {_auto_choice(report)}."
    configured = report.configured
    if configured.works:
        has_layers = any((finding.name, finding.state) == ("layers", "ok") for finding in report.machine)
        where = "on layers" if has_layers else "in the folder itself"
        confined = f"commands are confined, and run {where}" if configured.confines else "commands are NOT confined"
        yield f"Configured: {configured.setting}, that is {configured.chosen}; {confined}. {configured.detail}"
    else:
        yield f"Configured: {configured.setting}, which cannot start here: {configured.detail}"
    if configured.fix:
        yield f"  to fix it: {configured.fix}"


def _section(title: str, findings: tuple[Finding, ...] | list[Finding]) -> Iterator[str]:
    yield ""
    yield title
    for finding in findings:
        yield f"  {STATE_MARKS[finding.state]} {finding.name:{_WIDTH}} {finding.detail}"
        if finding.fix:
            yield f"     {'':{_WIDTH}} to fix it: {finding.fix}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--provider",
        metavar="NAME",
        help=f"the provider that must work: {', '.join(selection.NAMES)} (default: what Jupyter's configuration says)",
    )
    parser.add_argument("--root", metavar="DIR", default=".", help="the folder to be served (default: this one)")


def run(args: argparse.Namespace) -> int:
    report = examine_folder(args.root, args.provider, read_settings())
    text = json.dumps(to_dict(report), indent=2) if args.json else "\n".join(render_report(report))
    sys.stdout.write(text + "\n")
    return 0 if report.configured.works else 1
