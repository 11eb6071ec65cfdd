"""Lines in blocks: the same answer wherever the blocks are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.scanning import MAX_LINE_CHARACTERS, lines_with, texts_in, texts_of

texts = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"\r", b"\r\n", "é".encode(), b"\xff"])).map(b"".join)
literals = st.sampled_from([b"a", b"b", b"ab", b"aab", "é".encode(), b"\xa9b"])


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    ended = [line.removesuffix(b"\r") for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


@given(texts, literals, st.integers(1, 9), st.integers(1, 5))
def test_lines_with_a_literal(data: bytes, literal: bytes, size: int, limit: int) -> None:
    expected = [number for number, line in enumerate(data.split(b"\n"), 1) if literal in line]
    assert lines_with(cut(data, size), literal, limit) == expected[:limit]


@given(texts, st.integers(1, 9), st.sets(st.integers(-2, 12)))
def test_texts_of_lines(data: bytes, size: int, numbers: set[int]) -> None:
    expected = {number: line.decode("utf-8", "replace") for number, line in enumerate(lines_of(data), 1)}
    wanted = {n: text for n, text in expected.items() if n in numbers}
    assert texts_of(cut(data, size), numbers) == wanted
    assert texts_in(data, numbers) == wanted


def test_a_long_line_is_cut_at_a_character() -> None:
    data = b"x\n" + "😀".encode() * 100_000 + b"\r\nlast"
    for size in (7, 4096, len(data)):
        found = texts_of(cut(data, size), [1, 2, 3])
        assert found == texts_in(data, [1, 2, 3]) == {1: "x", 2: "😀" * MAX_LINE_CHARACTERS, 3: "last"}


def test_reading_stops_after_the_last_wanted_line() -> None:
    source = iter([b"one\n", b"two\n", b"three\n"])
    assert texts_of(source, [1]) == {1: "one"}
    assert list(source) == [b"two\n", b"three\n"]
