"""Search while another process swaps a folder for a link to outside: nothing from outside is found or counted."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budgets import choose_budget
from tests.support.file_trees import grow
from tests.support.guards import OpenGuard
from tests.support.rename_attacker import swapping
from wap_kernel.files.contained.root import Root
from wap_kernel.files.search import landlock
from wap_kernel.files.search.literal_search import FILE_BUDGET
from wap_kernel.files.search.searcher import Searcher
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RENAME_EXCHANGE is Linux's")

TRIES = choose_budget(suite=80, soak=10_000)
PATIENCE = 50
FILES = 20


@pytest.fixture
def swapped(root: Root, tmp_path: Path) -> Iterator[Root]:
    """`swap` is a folder at one moment and a link to outside at the next, and `evil` the other way round."""
    inside = Path(root.path)
    names = [f"f{number}" for number in range(FILES)]
    # So many lines that a total which counts one of these files is larger than all that is inside.
    grow(tmp_path / "outside", dict.fromkeys(names, b"secret outside\n" * 3 * FILES))
    grow(inside, {"swap": dict.fromkeys(names, b"harmless inside\n")})
    (inside / "evil").symlink_to(tmp_path / "outside")
    with swapping(inside / "swap", inside / "evil"):
        yield root


@pytest.mark.soak
@pytest.mark.parametrize("way", ["in process", "landlock", "descriptors"])
def test_nothing_from_outside(swapped: Root, way: str) -> None:
    if way == "landlock" and not landlock.read_abi():
        pytest.skip("this kernel has no Landlock")
    budget = FILE_BUDGET if way == "in process" else 0
    root_fd = None if way == "descriptors" else swapped.fd
    searcher = Searcher(OpenGuard(), root_fd=root_fd, file_budget=budget)
    seen = 0
    for attempt in itertools.count():
        if attempt >= TRIES and (seen or attempt >= PATIENCE * TRIES):
            break  # on a busy machine the folder may be the wrong one at nearly every look
        path = (".", "swap", "swap/f1", "evil")[attempt % 4]
        try:
            operation = SearchFiles(paths=(path,), query="side")
            result = searcher.search(swapped, OpenGuard(), operation, Limits(), Deadline(60))
        except WapError as error:
            assert error.code is not Code.INTERNAL_ERROR
            continue  # the start was a link to outside at that moment
        seen += result.total_matches
        assert result.total_matches <= 2 * FILES  # once as `swap`, once as `evil`
        assert all(match.match_text == "harmless inside" for match in result.matches)
    searcher.close()
    assert seen > 0  # else nothing was tried
