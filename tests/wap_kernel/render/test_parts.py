"""Cutting, sharing, and how numbers are said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.render import chars, cutting
from wap_kernel.render.parts import Room, lines_of

TEXT = st.text(alphabet="ab\n")


@given(TEXT, st.integers(1, 30), st.integers(1, 6))
def test_a_head_and_what_is_left_are_the_whole(text: str, characters: int, lines: int) -> None:
    cut = cutting.head(text, characters, lines)
    assert text.startswith(cut.text) and len(cut.text) <= characters and len(lines_of(cut.text)) <= lines
    assert len(lines_of(text[len(cut.text) :])) == cut.left_out
    assert cut.text or not text


@given(TEXT, st.integers(1, 30), st.integers(1, 6))
def test_a_tail_and_what_is_left_are_the_whole(text: str, characters: int, lines: int) -> None:
    cut = cutting.tail(text, characters, lines)
    assert text.endswith(cut.text) and len(cut.text) <= characters and len(lines_of(cut.text)) <= lines
    assert len(lines_of(text[: len(text) - len(cut.text)])) == cut.left_out
    assert cut.text or not text


@given(st.lists(st.integers(0, 100)), st.integers(0, 300))
def test_room_is_shared_fairly(sizes: list[int], characters: int) -> None:
    given_ = Room(characters, 1, 1).share(sizes)
    assert sum(given_) <= characters and all(got <= size for got, size in zip(given_, sizes, strict=True))
    short = [got for got, size in zip(given_, sizes, strict=True) if got < size]
    assert not short or max(given_) - min(short) <= 1 + max(short) - min(short)
    assert sum(sizes) > characters or given_ == sizes


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (chars.size(1), "1 byte"),
        (chars.size(999), "999 bytes"),
        (chars.size(1000), "1.0 KB"),
        (chars.size(999_600), "1.0 MB"),
        (chars.size(12_345_678), "12 MB"),
        (chars.size(10**15), "1000000 GB"),
        (chars.duration(0), "0 ms"),
        (chars.duration(1500), "1.5 s"),
        (chars.duration(61_000), "1 min 1 s"),
        (chars.duration(7_260_000), "2 h 1 min"),
        (chars.moment("2024-01-15T10:30:00.123Z"), "2024-01-15 10:30:00"),
        (chars.moment("2024-01-15T10:30:00Z", date=False), "10:30 UTC"),
        (chars.moment("soon"), "soon"),
        (chars.visible("a\tb\nc"), "a\tb\nc"),
        (chars.visible("\u3000\xa0é漢"), "\u3000\xa0é漢"),
        (chars.one_line("a\nb\x1b"), "a\\nb\\x1b"),
    ],
)
def test_how_it_is_said(said: str, expected: str) -> None:
    assert said == expected


def test_how_long_it_took() -> None:
    assert chars.between("2024-01-15T10:30:00Z", "2024-01-15T10:30:01.500Z") == 1500
    assert chars.between("2024-01-15T10:30:00Z", None) is None
