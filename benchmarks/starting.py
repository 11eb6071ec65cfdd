"""What the packages add to the start of every server and every kernel that loads them.

The packages themselves import next to nothing, so the import alone would flatter: the second row is what a server pays
when it loads the extension, which is where pydantic and the engine come in.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.server import REPOSITORY
from benchmarks.table import Figure, Row, Target

TIMED = """
import time
{before}
begin = time.perf_counter()
{what}
print((time.perf_counter() - begin) * 1000)
"""
_PACKAGES = TIMED.format(before="", what="import wap_kernel, jupyter_ext")
_EXTENSION = TIMED.format(
    before="import jupyter_server.serverapp, jupyter_server.extension.application",
    what="import jupyter_ext.app, jupyter_ext.handlers.routes, wap_kernel.engine.workspace",
)


def measure(bench: Bench) -> Iterator[Row]:
    times: dict[str, list[float]] = {_PACKAGES: [], _EXTENSION: []}
    for program in times:
        run_timed(program)  # compiles
    for _ in range(bench.plan.imports):
        for program, measured in times.items():
            measured.append(run_timed(program))
    yield Row("import wap_kernel, jupyter_ext", Figure.of(times[_PACKAGES]), target=Target(absolute=60))
    yield Row("import of the whole extension into a server", Figure.of(times[_EXTENSION]))


def run_timed(program: str) -> float:
    """Milliseconds in a new interpreter, without its own start."""
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)
