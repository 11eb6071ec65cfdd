"""What the packages add to the start of every server and every kernel that loads them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.server import REPOSITORY
from benchmarks.table import Figure, Row, Target

_PROGRAM = """
import time
begin = time.perf_counter()
import wap_kernel, jupyter_ext
print((time.perf_counter() - begin) * 1000)
"""


def measure(bench: Bench) -> Iterator[Row]:
    _import()  # compiles
    times = [_import() for _ in range(bench.plan.imports)]
    yield Row("import wap_kernel, jupyter_ext", Figure.of(times), target=Target(absolute=60))


def _import() -> float:
    """Milliseconds in a new interpreter, without its own start."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)
