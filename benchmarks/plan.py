"""How much is measured: the sizes and repetitions of a full run, and of a quick one that only shows that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The sizes and repetitions of one run of the benchmarks."""

    search_trees: tuple[int, ...]
    """Numbers of files."""
    shape_tree: int
    """The number of files of the trees of other shapes."""
    load_tree: int
    explore_tree: int
    folder: int
    rounds_of_seconds: int
    """Repetitions of what takes a tenth of a second or so."""
    rounds_of_milliseconds: int
    imports: int
    load_phases: int
    """Without and with load, in turn."""
    load_seconds: float
    batch: int
    """Operations of one large batch."""
    layer_trees: tuple[int, ...]
    """Numbers of files."""
    run_clients: int
    run_seconds: float


FULL = Plan(
    search_trees=(100, 10_000, 27_000),
    shape_tree=10_000,
    load_tree=27_000,
    explore_tree=100_000,
    folder=100,
    rounds_of_seconds=25,
    rounds_of_milliseconds=400,
    imports=15,
    load_phases=3,
    load_seconds=6.0,
    batch=1000,
    layer_trees=(1000, 27_000, 137_000),
    run_clients=64,
    run_seconds=30.0,
)

QUICK = Plan(
    search_trees=(100, 1200),
    shape_tree=1200,
    load_tree=1200,
    explore_tree=2000,
    folder=20,
    rounds_of_seconds=1,
    rounds_of_milliseconds=5,
    imports=1,
    load_phases=1,
    load_seconds=0.5,
    batch=20,
    layer_trees=(100,),
    run_clients=4,
    run_seconds=0.5,
)
