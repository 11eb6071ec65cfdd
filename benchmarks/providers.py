"""What a sandbox adds to the start of a command, without a server around it: each provider against its own means alone.

Bare bwrap gets the very same mounts, and `runsc do` starts a sandbox for every command, as one would by hand.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

from benchmarks import peers
from benchmarks.bench import Bench, agree
from benchmarks.table import Row, Target, compared
from benchmarks.timing import Contender, interleaved
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import NullGuard
from wap_kernel.model.command import Command, Confinement
from wap_kernel.providers import bubblewrap, host_paths, selection
from wap_kernel.providers.base import Provider
from wap_kernel.providers.mounts import ALIAS, Layout

MASKS = (0, 50, 200)


class Unguarded(NullGuard):
    """A guard and a journal that are never in the way."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


def measure(bench: Bench) -> Iterator[Row]:
    workspace = bench.server.root / "providers"
    workspace.mkdir()
    for number in range(max(MASKS)):
        (workspace / f"secret {number}").write_text("secret")
    with ExitStack() as stack:
        nobody = Unguarded()
        root = stack.enter_context(closing(Root(str(workspace), guard=nobody, journal=nobody)))
        providers = {
            name: stack.enter_context(closing(selection.choose(name, root, secrets=()).provider))
            for name in ("local", "bubblewrap", "gvisor")
            if selection.probe(name).works
        }
        yield from _start(bench, providers["local"], "local", {peers.BASH: (peers.bash_true, None)})
        if "bubblewrap" in providers:
            for masks in MASKS:
                yield from _start_masked(bench, providers["bubblewrap"], root, masks)
        if "gvisor" in providers:
            yield from _start(
                bench, providers["gvisor"], "gvisor, warm", {peers.RUNSC_DO: (peers.runsc_do, Target(0.5))}
            )


def _start(
    bench: Bench, provider: Provider, name: str, against: dict[str, tuple[Contender, Target | None]]
) -> Iterator[Row]:
    contenders: dict[str, Contender] = {"ours": partial(_run, provider, Confinement())}
    contenders |= {peer: call for peer, (call, _) in against.items()}
    times = interleaved(contenders, bench.plan.rounds_of_seconds)
    yield from compared(f"true, {name}", times, {peer: target for peer, (_, target) in against.items()})


def _start_masked(bench: Bench, provider: Provider, root: Root, masks: int) -> Iterator[Row]:
    confinement = Confinement(hidden=tuple(f"secret {number}" for number in range(masks)))
    times = interleaved(
        {
            "ours": partial(_run, provider, confinement),
            peers.BWRAP: bare_bwrap(root, confinement),
            peers.BASH: peers.bash_true,
        },
        bench.plan.rounds_of_seconds * 2,
    )
    targets: dict[str, Target | None] = {peers.BWRAP: Target(1.5), peers.BASH: None}
    yield from compared(f"true, bubblewrap, {masks} masks", times, targets)


def bare_bwrap(root: Root, confinement: Confinement) -> Callable[[], object]:
    """Return a call of bwrap by itself, with the mounts that a command of ours gets."""
    host = host_paths.gather_host_paths(root, environment=os.environ, secrets=())
    options = bubblewrap.build_options(Layout(root.path, host).mounts(confinement), network=False)
    # The same masks, as bubblewrap itself would make them, at both names of the workspace.
    names = (f"{folder}/{path}" for folder in (root.path, ALIAS) for path in confinement.hidden)
    masks = [word for name in names for word in ("--ro-bind", bubblewrap.EMPTY_FILE, name)]
    command = [bubblewrap.find_program(), *options, *masks, "--chdir", root.path, "--", *_bash("true")]
    return partial(subprocess.run, command, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _bash(line: str) -> list[str]:
    return ["/bin/bash", "--noprofile", "--norc", "-c", line]


def _run(provider: Provider, confinement: Confinement) -> None:
    outcome = provider.run(Command("true", timeout=60.0, output_limit=1000, confinement=confinement))
    agree("true", outcome.exit_code, 0)
