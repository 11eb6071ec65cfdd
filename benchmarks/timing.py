"""Timing contenders in turn, A B C A B C ..., so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

WARM_UP = 2

Contender = Callable[[], object]


def interleaved(contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each contender, `rounds` times. Each round begins with another one."""
    names = list(contenders)
    for name in names * WARM_UP:
        contenders[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                times[name].append(milliseconds(contenders[name]))
    finally:
        gc.enable()
    return times


def milliseconds(contender: Contender) -> float:
    begin = time.perf_counter()
    contender()
    return (time.perf_counter() - begin) * 1000


def quantile(values: Sequence[float], part: float) -> float:
    """Return the measured value below which `part` of all values lie; never interpolate."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


median = statistics.median
