"""Query the workspace while a person types; a late answer serves the next Tab."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, TimeoutError
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from wap_kernel.client.background import run_in_thread
from wap_kernel.model.errors import WapError

if TYPE_CHECKING:
    from wap_kernel.client.results import ClientResult
    from wap_kernel.client.workspace_client import WorkspaceClient

A = TypeVar("A", bound="ClientResult")


class Lookup:
    """Send completion queries to the workspace, one at a time, and keep a late answer for the next Tab.

    A slow server is not queried twice: its late answer serves the next query of the same key.
    `client` is called in a thread, because it may look for a server. Until `is_connected`, a query only starts that and
    does not wait.
    """

    def __init__(self, client: Callable[[], WorkspaceClient], is_connected: Callable[[], bool] = lambda: True) -> None:
        self._client, self._is_connected = client, is_connected
        self._late: tuple[Hashable, Future[Any]] | None = None

    def ask(self, key: Hashable, query: Callable[[WorkspaceClient], A], until: float) -> A | None:
        """Return the answer of `query`, or None where it is refused or later than `until` on the clock of `monotonic`.

        `key` tells queries apart.
        """
        answer: Future[A] | None = None
        if self._late is not None:
            late_key, late = self._late
            if not late.done():
                return None
            self._late, answer = None, late if late_key == key else None
        if answer is None and not self._is_connected():
            self._late = None, run_in_thread(self._client, "wap-connecting")
            return None
        answer = answer or run_in_thread(lambda: query(self._client()), "wap-asking")
        try:
            return answer.result(max(0.0, until - monotonic()))
        except TimeoutError:
            self._late = key, answer
            return None
        except WapError:
            return None
