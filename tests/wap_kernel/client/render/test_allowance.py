"""The bytes that several results in one cell may take together."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from wap_kernel.client.render import MAX_ERROR_BYTES, MIN_BUNDLE_BYTES, Allowance, bundle, saved_bytes
from wap_kernel.client.results import FileText, Note
from wap_kernel.model.limits import MAX_CELL_BYTES


def _file(size: int) -> FileText:
    content = ("a line of text\n" * size)[:size]
    data = {"content": content, "metadata": {"size": size}, "totalLines": size // 15, "returnedLines": size // 15}
    return FileText({**data, "hash": "sha256:0", "isTruncated": False, "encoding": "utf-8"}, path="a.txt", first_line=1)


def test_all_of_a_cell_is_within_it() -> None:
    allowance = Allowance()
    shown = [allowance.bundle(_file(60_000)) for _ in range(8)]
    assert sum(len(json.dumps(one)) for one in shown) <= MAX_CELL_BYTES - MAX_ERROR_BYTES
    assert "a line of text" in shown[0]["text/html"]
    assert [one["text/plain"] for one in shown if "not shown" in one["text/plain"]] != []
    assert allowance.bundle(_file(10)) == {"text/plain": ""}


def test_what_is_small_is_cut_to_what_is_left() -> None:
    """Not given up because it was far from filling a whole cell."""
    allowance = Allowance()
    while "not shown" not in (one := allowance.bundle(_file(4_000)))["text/plain"]:
        assert "a line of text" in one["text/plain"]
        assert "a line of text" in one["text/html"]


@given(st.integers(MIN_BUNDLE_BYTES, MAX_CELL_BYTES), st.integers(0, 60_000))
@example(MIN_BUNDLE_BYTES, 211)  # as text it takes nearly all that is there for text
@example(MIN_BUNDLE_BYTES, 340)
def test_something_is_shown_of_a_file_in_any_room(largest: int, size: int) -> None:
    shown = bundle(_file(size), largest=largest)
    assert sum(map(saved_bytes, shown.values())) <= largest
    assert "a.txt" in shown["text/html"]


def test_python_is_mentioned_where_there_is_python() -> None:
    huge = Note({"text": "x\n" * 5_000})
    assert "_.to_dict()" in bundle(huge)["text/plain"]
    allowance = Allowance()
    while told := allowance.bundle(huge, prefix="")["text/plain"]:
        assert "_" not in told


def test_small_answers_all_fit() -> None:
    allowance = Allowance()
    shown = [allowance.bundle(Note({"text": f"number {number}"})) for number in range(50)]
    assert all(f"number {number}" in one["text/plain"] for number, one in enumerate(shown))
