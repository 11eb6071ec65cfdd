"""Questions to the workspace while somebody writes: answered soon, or with the next Tab."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, TimeoutError
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from wap_kernel.client.background import started
from wap_kernel.model.errors import WapError

if TYPE_CHECKING:
    from wap_kernel.client.results import Answer
    from wap_kernel.client.workspace_client import Hands

A = TypeVar("A", bound="Answer")


class Lookup:
    """One question at a time: a slow server is not asked twice, and what it said too late answers the same question
    when that is asked next. `hands` is called in a thread, for it may look for a server. Until `has_hands` that is all
    that is begun, and nobody waits for it."""

    def __init__(self, hands: Callable[[], Hands], has_hands: Callable[[], bool] = lambda: True) -> None:
        self._hands, self._has_hands = hands, has_hands
        self._late: tuple[Hashable, Future[Any]] | None = None

    def ask(self, about: Hashable, question: Callable[[Hands], A], until: float) -> A | None:
        """None: not answered by then (on the clock of `monotonic`), or refused. `about` tells questions apart."""
        asked: Future[A] | None = None
        if self._late is not None:
            what, late = self._late
            if not late.done():
                return None
            self._late, asked = None, late if what == about else None
        if asked is None and not self._has_hands():
            self._late = None, started(self._hands, "wap-connecting")
            return None
        asked = asked or started(lambda: question(self._hands()), "wap-asking")
        try:
            return asked.result(max(0.0, until - monotonic()))
        except TimeoutError:
            self._late = about, asked
            return None
        except WapError:
            return None
