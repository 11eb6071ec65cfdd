"""readFile of 4 KB over MCP: in a session that is kept, over HTTP, by a client that costs next to nothing.

An SDK's client takes longer than the server; both would be measured, and the slower of the two is not ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from benchmarks import empty_handler, jupyter_server_mcp, mcp_desktop_commander, peers, trees
from benchmarks.bench import Bench, agree
from benchmarks.mcp_session import EVENTS, JSON, Session
from benchmarks.table import Row, Target, compared
from benchmarks.timing import Contender, interleaved

PATH = "/wap/mcp"
OURS, IN_EVENTS = "ours", "ours in events"


def measure(bench: Bench) -> Iterator[Row]:
    file = bench.server.root / "mcp.txt"
    text = trees.text_of_4k()
    file.write_text(text)
    path = bench.server.path(file)
    what = "readFile over MCP, 4 KB"
    with ExitStack() as stack:
        plain = Session(stack.enter_context(bench.server.client()), PATH, JSON)
        events = Session(stack.enter_context(bench.server.client()), PATH, EVENTS)
        agree(what, json.loads(plain.call("readFile", path=path))["result"]["structuredContent"]["content"], text)
        ours: dict[str, Contender] = {
            OURS: partial(plain.call, "readFile", path=path),
            IN_EVENTS: partial(events.call, "readFile", path=path),
        }
        beside: dict[str, Contender] = {peers.EMPTY: partial(bench.client.get, empty_handler.PATH)}
        if bench.mcp is not None:
            beside[peers.MCP] = partial(bench.mcp.call, "read_text_file", path=str(file))
        # In a round of their own: a peer that computes for long leaves cold caches to whoever comes next.
        heavy: dict[str, Contender] = {}
        if mcp_desktop_commander.is_installed():
            commander = stack.enter_context(mcp_desktop_commander.running())
            heavy[peers.DESKTOP_COMMANDER] = partial(commander.call, "read_file", path=str(file))
        if jupyter_server_mcp.is_installed():
            theirs = Session(stack.enter_context(jupyter_server_mcp.running(bench.server.root)), "/mcp", EVENTS)
            heavy[peers.JUPYTER_SERVER_MCP] = partial(theirs.call, "read_text", path=str(file))
        times = interleaved({**ours, **beside}, bench.plan.rounds_of_milliseconds)
        among_heavy = interleaved({**ours, **heavy}, bench.plan.rounds_of_milliseconds)
    yield from compared(what, times, {peers.EMPTY: Target(1.6), peers.MCP: None})
    # As clients have it that accept both, and so are sent progress and questions.
    in_events = f"{what}, in an event stream"
    yield from compared(in_events, times, {peers.EMPTY: None}, ours=IN_EVENTS)
    yield from compared(what, among_heavy, {peers.DESKTOP_COMMANDER: None})
    yield from compared(in_events, among_heavy, {peers.JUPYTER_SERVER_MCP: None}, ours=IN_EVENTS)
