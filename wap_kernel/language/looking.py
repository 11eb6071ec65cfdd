"""Questions to the workspace while somebody writes: answered soon, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from wap_kernel.client.background import started
from wap_kernel.errors import WapError

if TYPE_CHECKING:
    from wap_kernel.client.answers import Answer
    from wap_kernel.client.hands import Hands

A = TypeVar("A", bound="Answer")


class Lookup:
    """One question at a time: a slow server is not asked twice. `hands` is called in a thread, for it may look for a
    server. Until `has_hands` that is all that is begun, and nobody waits for it."""

    def __init__(self, hands: Callable[[], Hands], has_hands: Callable[[], bool] = lambda: True) -> None:
        self._hands, self._has_hands = hands, has_hands
        self._late: Future[Any] | None = None

    def ask(self, question: Callable[[Hands], A], until: float) -> A | None:
        """None: not answered by then (on the clock of `monotonic`), or refused."""
        if self._late is not None and not self._late.done():
            return None
        if not self._has_hands():
            self._late = started(self._hands, "wap-connecting")
            return None
        asked: Future[A] = started(lambda: question(self._hands()), "wap-asking")
        self._late = asked
        try:
            return asked.result(max(0.0, until - monotonic()))
        except (WapError, TimeoutError):
            return None
