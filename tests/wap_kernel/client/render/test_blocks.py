"""Truncate text, share room, and format numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import Room, split_lines

TEXT = st.text(alphabet="ab\n")


@given(TEXT, st.integers(1, 30), st.integers(1, 6))
def test_a_head_and_what_is_left_are_the_whole(text: str, characters: int, lines: int) -> None:
    cut = units.take_head(text, characters, lines)
    assert text.startswith(cut.text) and len(cut.text) <= characters and len(split_lines(cut.text)) <= lines
    rest = text[len(cut.text) :]
    assert "\n" not in rest[: cut.omitted_characters] and (not cut.omitted_characters or "\n" not in cut.text)
    is_within_line = cut.text and not cut.text.endswith("\n")
    assert (
        len(split_lines(rest[cut.omitted_characters :].removeprefix("\n" if is_within_line else "")))
        == cut.omitted_lines
    )
    assert cut.text or not text


@given(TEXT, st.integers(1, 30), st.integers(1, 6))
def test_a_tail_and_what_is_left_are_the_whole(text: str, characters: int, lines: int) -> None:
    cut = units.take_tail(text, characters, lines)
    assert text.endswith(cut.text) and len(cut.text) <= characters and len(split_lines(cut.text)) <= lines
    rest = text[: len(text) - len(cut.text)]
    before = rest[: len(rest) - cut.omitted_characters]
    assert before == "" or before.endswith("\n")
    assert len(split_lines(before)) == cut.omitted_lines
    assert cut.text or not text


def test_what_was_cut_is_counted_truly() -> None:
    for long in (units.take_head("x" * 5_000, 3_000, 10), units.take_tail("x" * 5_000, 3_000, 10)):
        assert (len(long.text), long.omitted_lines, long.omitted_characters) == (1_000, 0, 4_000), (
            "more of it no writer shows"
        )
    assert (
        units.take_head("x" * 5_000 + "\ny", 3_000, 10).describe_omission()
        == "4,000 more characters of this line and 1 more line"
    )
    assert units.take_tail("y\nz\nx\n", 3, 10).describe_omission("earlier") == "2 earlier lines"
    assert (
        units.take_head("x" * 5_000, 3_000, 10, longest=5_000).describe_omission()
        == "2,000 more characters of this line"
    )
    assert units.take_head("x\n", 3_000, 10).describe_omission() == ""


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
        (units.format_size(1), "1 byte"),
        (units.format_size(999), "999 bytes"),
        (units.format_size(1000), "1.0 KB"),
        (units.format_size(999_600), "1.0 MB"),
        (units.format_size(12_345_678), "12 MB"),
        (units.format_size(10**15), "1000000 GB"),
        (units.format_duration(0), "0 ms"),
        (units.format_duration(1500), "1.5 s"),
        (units.format_duration(61_000), "1 min 1 s"),
        (units.format_duration(7_260_000), "2 h 1 min"),
        (units.format_time("2024-01-15T10:30:00.123Z"), "2024-01-15 10:30:00 UTC"),
        (units.format_time("2024-01-15T10:30:00Z", date=False), "10:30 UTC"),
        (units.format_time("soon"), "soon"),
        (units.escape_invisible("a\tb\nc"), "a\tb\nc"),
        (units.escape_invisible("\u3000\xa0é漢"), "\u3000\xa0é漢"),
        (units.escape_one_line("a\nb\x1b"), "a\\nb\\x1b"),
    ],
)
def test_how_it_is_said(said: str, expected: str) -> None:
    assert said == expected


def test_how_long_it_took() -> None:
    assert units.elapsed_milliseconds("2024-01-15T10:30:00Z", "2024-01-15T10:30:01.500Z") == 1500
    assert units.elapsed_milliseconds("2024-01-15T10:30:00Z", None) is None
