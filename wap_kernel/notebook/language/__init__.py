"""The language of `%wap` lines, `%%wap` cells and the `wap` kernel.

    line = parse("sh -t 60 pytest -q | tail")       # the text after `%wap`; InvalidArgument says what to write
    line = parse_cell("--yes", body)                # the text after `%%wap`, and the cell below it
    lines = parse_script(cell)                      # a cell of the `wap` kernel: lines, or a batch, or `write PATH`

    result = execute_line(line, client, display, names)   # a ClientResult, or raises a WapError
    list_operations(line)                           # its operations, to check them by policy; empty: it only reads

    completer = Completer(get_client, is_connected) # one a shell: it remembers a lookup that has not returned
    completer.complete(text, cursor)                # Completions(matches, start, end); never slower than 200 ms

    COMMANDS[name].summary, usage(name)             # the documentation of one sub-command; usage("") is that of all

`Line.options` has `raises` (the caller raises failures), `quiet` (the caller displays nothing) and the options of the
sub-command. `display` receives the updates of a run (`RunDisplay`; `LiveCard(publish)` draws bundles). `names` are the
Python variables that a batch may use and that `--to` binds, None where there is no Python. A KeyboardInterrupt cancels
the run and is raised again; `client.last` is that run.
"""

from __future__ import annotations

from wap_kernel.notebook.language.commands import COMMANDS, usage
from wap_kernel.notebook.language.completion import Completer, Completions
from wap_kernel.notebook.language.execute import RunDisplay, execute_line, list_operations
from wap_kernel.notebook.language.line_parser import Line, parse, parse_cell, parse_script
from wap_kernel.notebook.language.live_card import LiveCard

__all__ = [
    "COMMANDS",
    "Completer",
    "Completions",
    "Line",
    "LiveCard",
    "RunDisplay",
    "execute_line",
    "list_operations",
    "parse",
    "parse_cell",
    "parse_script",
    "usage",
]
