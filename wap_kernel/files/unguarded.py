"""A guard that refuses nothing and hides nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wap_kernel.files.interface import Folders
from wap_kernel.model.path_access import Access


class Unguarded:
    """For looking at how things are; what a caller may do is asked of the caller's own guard."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None: ...
    def check_tree(self, path: str) -> None: ...
    def may_hold(self, path: str) -> bool:
        return False

    def hidden_among(self, folder: str, names: Sequence[str], folders: Folders = tuple) -> Collection[str]:
        return ()

    def hidden_names(self, folder: str) -> frozenset[str]:
        return frozenset()

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return frozenset()
