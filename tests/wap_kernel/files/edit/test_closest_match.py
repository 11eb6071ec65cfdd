"""Where a text was probably meant. It is only ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.time_limits import cpu_time
from wap_kernel.files.edit.apply import apply_edits
from wap_kernel.files.edit.closest_match import MAX_LINES, MIN_SIMILARITY, find_closest
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import EditNotFound

CODE = "import os\n\n\ndef greet(name):\n    # be kind\n    return 'Hello ' + name\n\n\ndef leave():\n    os._exit(0)\n"


def test_the_region_that_shares_most_words_is_found() -> None:
    found = find_closest(CODE, "def greet(name):\n    # be kind\n    return 'Hi ' + name\n")
    assert found is not None
    assert (found.start_line, found.end_line) == (4, 6)
    assert found.text == "def greet(name):\n    # be kind\n    return 'Hello ' + name\n"
    assert 0.9 < found.similarity < 1


@pytest.mark.parametrize(
    ("wanted", "line"),
    [("    return 'Hello '+name", 6), ("os.exit(0)", 10), ("import  os", 1)],
)
def test_one_line(wanted: str, line: int) -> None:
    found = find_closest(CODE, wanted)
    assert found is not None
    assert (found.start_line, found.end_line) == (line, line)


@pytest.mark.parametrize(("text", "wanted"), [("", "x"), (CODE, "%%%%"), (CODE, "Lorem ipsum dolor sit amet")])
def test_what_is_like_nothing_has_no_place(text: str, wanted: str) -> None:
    assert find_closest(text, wanted) is None


def test_a_longer_text_than_the_file_is_compared_with_all_of_it() -> None:
    found = find_closest("a = 1\n", "a = 1\nb = 2\n")
    assert found is not None
    assert (found.start_line, found.end_line) == (1, 1)


def test_a_failed_edit_tells_the_place_and_changes_nothing() -> None:
    change = ReplaceText(old_content="return 'Hi ' + name", new_content="")
    with pytest.raises(EditNotFound) as refused:
        apply_edits(CODE.encode(), [change], max_size=10_000, deadline=Deadline(5))
    assert refused.value.details["closest"]["startLine"] == 6


def test_a_large_file_takes_no_noticeable_time() -> None:
    text = "".join(f"line number {number} of many\n" for number in range(2 * MAX_LINES))
    with cpu_time(20):
        found = find_closest(text, "line number 777 of any\nline number 778 of many\n")
    assert found is not None
    assert found.similarity > MIN_SIMILARITY


@given(st.text(max_size=200), st.text(max_size=60))
def test_a_place_is_lines_of_the_text(text: str, wanted: str) -> None:
    found = find_closest(text, wanted)
    if found is not None:
        lines = text.split("\n")
        assert 1 <= found.start_line <= found.end_line <= len(lines)
        assert "\n".join(lines[found.start_line - 1 : found.end_line]) == found.text.removesuffix("\n")
