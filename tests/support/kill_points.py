"""Kill a process before and after each of the steps of what it does, and see what another process finds."""

from __future__ import annotations

import functools
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from wap_kernel.engine.judge import Judge
from wap_kernel.providers.bubblewrap import BubblewrapProvider
from wap_kernel.providers.layers import layer as layers
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.runs.store.run_store import RunStore
from wap_kernel.state.changes.change_log import ChangeLog
from wap_kernel.state.changes.history import ChangeHistory

BUILDING: Sequence[tuple[Any, str]] = [
    *((LayerStore, name) for name in ("create", "load")),
    *((Layer, name) for name in ("write_note", "hold", "release")),
    *((layers, name) for name in ("_write_description", "read_clock")),
]
JUDGING: Sequence[tuple[Any, str]] = [
    *((BubblewrapProvider, "run"), (Layer, "read_changes"), (Judge, "_judge_effect")),
]
STORING: Sequence[tuple[Any, str]] = [
    *((RunStore, name) for name in ("create", "append", "change_status", "claim")),
    *((ChangeLog, name) for name in ("begin", "begin_apply", "end_apply", "finish", "roll_back")),
    (Layer, "discard"),
]
ALL = [*BUILDING, *JUDGING, *STORING]


class KillPoints:
    """The points that a process passes; it dies at the one with this number, counted while `is_armed`."""

    def __init__(self, number: int) -> None:
        self.is_armed = True
        self._left = number

    def install(self, functions: Sequence[tuple[Any, str]] = ALL) -> None:
        """Make points of the beginnings and ends of these functions, and of the steps of all changes."""
        for owner, name in functions:
            setattr(owner, name, self._surround(getattr(owner, name)))
        begin = ChangeHistory.__init__

        def begin_with_steps(history: ChangeHistory, *arguments: Any, **options: Any) -> None:
            begin(history, *arguments, **{**options, "step": self.pass_point})

        ChangeHistory.__init__ = begin_with_steps  # type: ignore[method-assign]

    def pass_point(self, _: str = "") -> None:
        if self.is_armed:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1

    def _surround(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def surrounded(*arguments: Any, **options: Any) -> Any:
            self.pass_point()
            result = function(*arguments, **options)
            self.pass_point()
            return result

        return surrounded


def run_until_killed(work: Callable[[KillPoints], None], number: int) -> bool:
    """Do `work` in a process of its own that dies at a point; return whether it has passed all points."""
    child = os.fork()
    if not child:
        try:
            points = KillPoints(number)
            points.install()
            work(points)
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code == 0
