"""What a layer costs: a command that changes nothing, one that changes a thousand files, a checkout by git.

The command `true` runs in workspaces of different sizes, against bare bwrap with the same mounts and against itself
without undo. A thousand changed files are applied against `cp -a` of the same files, and a checkout of a thousand files
on a layer against the same checkout in a plain folder.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks import peers, trees
from benchmarks.bench import Bench
from benchmarks.providers import Unguarded, bare_bwrap
from benchmarks.runs import Engine
from benchmarks.table import Figure, Row, Target, compared
from benchmarks.timing import Contender, interleaved, milliseconds
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import Confinement
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.run import Step

FIRST = 3
"""Workspaces in which the first command is timed."""


def measure(bench: Bench) -> Iterator[Row]:
    for files in bench.plan.layer_trees:
        yield from _true(bench, files)
    yield from _apply(bench)
    yield from _checkout(bench)


def _shell(command: str) -> tuple[Step, ...]:
    return (Step("one", "shell", RunCommand(command=command, timeout_ms=600_000)),)


def _true(bench: Bench, files: int) -> Iterator[Row]:
    tree = trees.sources(bench.server.root, files)
    what = f"the command true in a run, {files:,} files"
    yield Row(f"{what}, the first time", Figure.of([_first(tree) for _ in range(FIRST)]))
    with ExitStack() as stack:
        unguarded = Unguarded()
        root = stack.enter_context(closing(Root(str(tree), guard=unguarded, journal=unguarded)))
        kept = stack.enter_context(Engine(tree, provider="bubblewrap"))
        lost = stack.enter_context(Engine(tree, provider="bubblewrap", undo=False))
        contenders: dict[str, Contender] = {
            "ours": partial(kept.run, _shell("true")),
            peers.NO_UNDO: partial(lost.run, _shell("true")),
            peers.BWRAP: bare_bwrap(root, Confinement()),
        }
        times = interleaved(contenders, bench.plan.rounds_of_seconds * 2)
    yield from compared(what, times, {peers.BWRAP: Target(1.5), peers.NO_UNDO: Target(1.3)})


def _first(tree: Path) -> float:
    with Engine(tree, provider="bubblewrap") as engine:
        return milliseconds(partial(engine.run, _shell("true")))


def _apply(bench: Bench) -> Iterator[Row]:
    """Time the changes of a command without the command: the same command without changes is taken off."""
    number = bench.plan.batch
    folder = bench.server.root / "layer-apply"
    plain = bench.server.root / "layer-plain"
    folder.mkdir()
    text = trees.text_of_4k()
    for index in range(number):
        (folder / f"{index:04}.txt").write_text(text)
    shutil.copytree(folder, plain)
    numbers = count()
    with Engine(folder, provider="bubblewrap") as engine:

        def changed() -> None:
            engine.run(_shell(f"for f in *.txt; do echo {next(numbers)} >> $f; done"))

        def unchanged() -> None:
            engine.run(_shell("for f in *.txt; do echo >> /tmp/one; done"))

        def copied() -> None:
            target = bench.server.root / f"layer-copy-{next(numbers)}"
            subprocess.run(["cp", "-a", str(plain), str(target)], check=True)

        times = interleaved(
            {"changed": changed, "unchanged": unchanged, peers.CP: copied}, max(3, bench.plan.rounds_of_seconds // 2)
        )
    times["ours"] = _subtract(times["changed"], times["unchanged"])
    yield from compared(f"the changes of a command to {number:,} files of 4 KB, applied", times, {peers.CP: Target(2)})


def _checkout(bench: Bench) -> Iterator[Row]:
    number = bench.plan.batch
    layered, plain = (bench.server.root / name for name in ("layer-git", "plain-git"))
    for folder in (layered, plain):
        _make_branches(folder, number)
    with Engine(layered, provider="bubblewrap") as engine:

        def ours() -> None:
            engine.run(_shell("git checkout -q one && git checkout -q two"))

        def theirs() -> None:
            for branch in ("one", "two"):
                subprocess.run(["git", "checkout", "-q", branch], cwd=plain, check=True)

        times = interleaved({"ours": ours, peers.GIT: theirs}, max(3, bench.plan.rounds_of_seconds // 2))
    yield from compared(f"git checkout of {number:,} files, there and back", times, {peers.GIT: Target(1.5)})


def _make_branches(folder: Path, number: int) -> None:
    folder.mkdir()
    git = partial(subprocess.run, cwd=folder, check=True, capture_output=True)
    git(["git", "init", "-q", "-b", "one"])
    for branch in ("one", "two"):
        if branch == "two":
            git(["git", "checkout", "-q", "-b", branch])
        for index in range(number):
            (folder / f"{index:04}.txt").write_text(f"{branch} {index}\n" * 100)
        git(["git", "add", "-A"])
        identity = ["-c", "user.name=wap", "-c", "user.email=wap@example.org"]
        git(["git", *identity, "commit", "-q", "-m", branch])


def _subtract(more: Sequence[float], less: Sequence[float]) -> list[float]:
    base = sorted(less)[len(less) // 2]
    return [max(0.0, each - base) for each in more]
