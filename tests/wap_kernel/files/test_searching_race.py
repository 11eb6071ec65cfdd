"""Search while another process swaps a folder for a link to outside: nothing from outside is found or counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.wap_kernel.files.conftest import OpenGuard
from tests.wap_kernel.files.swapping import swapping
from tests.wap_kernel.files.trees import grow
from wap_kernel.errors import WapError
from wap_kernel.files import landlock
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.literals import FILE_BUDGET
from wap_kernel.files.root import Root
from wap_kernel.files.searching import Searcher
from wap_kernel.operations import SearchFiles
from wap_kernel.results import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RENAME_EXCHANGE is Linux's")

TRIES = 10_000 if os.environ.get("WAP_SOAK") else 300


@pytest.fixture
def swapped(root: Root, tmp_path: Path) -> Iterator[Root]:
    """`swap` is a folder at one moment and a link to outside at the next, and `evil` the other way round."""
    inside = Path(root.path)
    names = [f"f{number}" for number in range(20)]
    grow(tmp_path / "outside", dict.fromkeys(names, b"secret outside\n"))
    grow(inside, {"swap": dict.fromkeys(names, b"harmless inside\n")})
    (inside / "evil").symlink_to(tmp_path / "outside")
    with swapping(inside / "swap", inside / "evil"):
        yield root


@pytest.mark.soak
@pytest.mark.parametrize("way", ["in process", "landlock", "descriptors"])
def test_nothing_from_outside(swapped: Root, way: str) -> None:
    if way == "landlock" and not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    budget = FILE_BUDGET if way == "in process" else 0
    root_fd = None if way == "descriptors" else swapped.fd
    searcher = Searcher(OpenGuard(), root_fd=root_fd, file_budget=budget)
    seen = 0
    for attempt in range(TRIES):
        path = (".", "swap", "swap/f1", "evil")[attempt % 4]
        operation = partial(SearchFiles, paths=(path,))
        try:
            inside = searcher.search(swapped, OpenGuard(), operation(query="inside"), Limits(), Deadline(60))
            outside = searcher.search(swapped, OpenGuard(), operation(query="secret"), Limits(), Deadline(60))
        except WapError:
            continue  # the start was a link to outside at that moment
        seen += inside.total_matches
        assert outside.total_matches == 0 and outside.matches == []
        assert all(match.match_text == "harmless inside" for match in inside.matches)
    searcher.close()
    assert seen > 0  # else nothing was tried
