"""What the notebook's side costs: loading the magic beside an imported IPython, and `%wap read` beside a bare request.

The magic's time has everything that a cell pays: the line is parsed, the server is asked, the answer is rendered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks import peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.starting import TIMED, run_timed
from benchmarks.table import Figure, Row, Target, compared
from benchmarks.timing import interleaved

LOADING = TIMED.format(
    before="from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()",
    what="shell.run_line_magic('load_ext', 'wap_kernel')",
)


def measure(bench: Bench) -> Iterator[Row]:
    run_timed(LOADING)  # compiles
    loaded = [run_timed(LOADING) for _ in range(bench.plan.imports)]
    yield Row("%load_ext wap_kernel beside IPython", Figure.of(loaded), target=Target(absolute=60))
    file = bench.server.root / "magic.txt"
    file.write_text(trees.text_of_4k())
    path = bench.server.path(file)
    with _shell(bench) as shell:

        def magic() -> Any:
            shell.events.trigger("pre_execute")  # as before every cell
            answer = shell.run_line_magic("wap", f"read {path}")
            return answer, shell.display_formatter.format(answer)[0]

        answer, shown = magic()
        agree("%wap read", answer.text, trees.text_of_4k())
        agree("%wap read as HTML", trees.text_of_4k().split("\n")[-2] in shown["text/html"], True)
        times = interleaved(
            {"ours": magic, peers.REQUEST: partial(bench.client.tool, "readFile", path=path)},
            bench.plan.rounds_of_milliseconds,
        )
    yield from compared("%wap read, 4 KB, through the server", times, {peers.REQUEST: Target(3)})


@contextmanager
def _shell(bench: Bench) -> Iterator[Any]:
    """Return an IPython shell that finds the benchmark's server."""
    from IPython.core.interactiveshell import InteractiveShell

    named = {"WAP_URL": bench.server.url, "WAP_TOKEN": bench.server.token}
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    shell: Any = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "wap_kernel")
        yield shell
    finally:
        shell.run_line_magic("unload_ext", "wap_kernel")
        InteractiveShell.clear_instance()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
