"""Guards and journals for the tests of files: they protect nothing and note nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wap_kernel.model.paths import Access


class OpenGuard:
    """Protects nothing."""

    def check(self, path: str, access: Access, *, folder: bool = False) -> None: ...
    def check_tree(self, path: str) -> None: ...
    def may_hold(self, path: str) -> bool:
        return False

    def hidden_among(self, folder: str, names: Sequence[str], folders: object = None) -> Collection[str]:
        hidden = self.hidden_names(folder)
        return [name for name in names if name.casefold() in hidden]

    def hidden_names(self, folder: str) -> frozenset[str]:
        return frozenset()

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        return frozenset()


class NoJournal:
    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...
