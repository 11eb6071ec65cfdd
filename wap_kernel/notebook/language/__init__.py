"""The language of `%wap` lines, `%%wap` cells and the `wap` kernel: what people write, and what is done for it.

    line = parse("sh -t 60 pytest -q | tail")       # what follows `%wap`; InvalidArgument says what to write
    line = parse_cell("--yes", body)                # what follows `%%wap`, and the cell below it
    lines = parse_script(cell)                      # a cell of the `wap` kernel: lines, or a batch, or `write PATH`

    answer = perform(line, hands, show, names)      # an Answer, or raises a WapError
    operations(line)                                # what it would do (to ask policy about it); empty: it only looks

    completer = Completer(get_hands, has_hands)     # one a shell: it remembers a lookup that has not come back
    completer.complete(text, cursor)                # Completions(matches, start, end); never slower than 200 ms

    COMMANDS[name].summary, usage(name)             # documentation: of one sub-command; usage("") is that of all

`Line.options` has `raises` (the caller raises what failed), `quiet` (the caller shows nothing) and what the sub-command
takes. `show` is told of a run while it goes (`Show`; `LiveCard(publish)` is one that draws bundles). `names` are the
Python variables that a batch may use and that `--to` binds, None where there is no Python. A KeyboardInterrupt cancels
the run and goes on; `hands.last` is that run.
"""

from __future__ import annotations

from wap_kernel.notebook.language.commands import COMMANDS, usage
from wap_kernel.notebook.language.completion import Completer, Completions
from wap_kernel.notebook.language.execute import Show, operations, perform
from wap_kernel.notebook.language.line_parser import Line, parse, parse_cell, parse_script
from wap_kernel.notebook.language.live_card import LiveCard

__all__ = [
    "COMMANDS",
    "Completer",
    "Completions",
    "Line",
    "LiveCard",
    "Show",
    "operations",
    "parse",
    "parse_cell",
    "parse_script",
    "perform",
    "usage",
]
