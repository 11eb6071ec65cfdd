"""Roots on a temporary folder, resolved by openat2 and by the component walk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from wap_kernel.files import openat2
from wap_kernel.files.primitives import Access
from wap_kernel.files.root import Root


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


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Root]:
    """A root in `tmp_path/ws`, beside `tmp_path/outside`."""
    if request.param == "openat2" and openat2.load() is None:
        pytest.skip("this kernel has no openat2")
    for name in ("ws", "outside"):
        (tmp_path / name).mkdir()
    root = Root(str(tmp_path / "ws"), guard=OpenGuard(), journal=NoJournal(), use_openat2=request.param == "openat2")
    yield root
    root.close()
