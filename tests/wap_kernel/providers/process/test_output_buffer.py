"""Head and tail of a stream, whatever its bytes and however they come."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.providers.process.output_buffer import OutputCollector, OutputText, render_streams

MARKER = re.compile(r"\n?\[\.\.\. (\d+) bytes left out \.\.\.\]\n")
MARKER_SIZE = 64

UTF8 = st.text(alphabet=st.sampled_from("ab\nä€😀"), max_size=400).map(str.encode)
ANY = st.one_of(
    st.binary(max_size=400), UTF8, st.lists(st.sampled_from([b"\xf0\x9f", b"a", b"\xff", "😀".encode()])).map(b"".join)
)
LIMITS = st.integers(0, 600)


def collect(chunks: list[bytes], limit: int) -> OutputCollector:
    collector = OutputCollector(limit)
    for chunk in chunks:
        collector.feed(chunk)
    return collector


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(ANY, st.lists(st.integers(0, 1000), max_size=20), LIMITS, LIMITS)
def test_how_the_bytes_were_read_does_not_matter(data: bytes, places: list[int], limit: int, budget: int) -> None:
    budget = min(budget, limit)
    assert collect(cut(data, places), limit).text(budget) == collect([data], limit).text(budget)


@given(ANY, LIMITS, LIMITS)
def test_the_text_keeps_to_its_budget(data: bytes, limit: int, budget: int) -> None:
    budget = min(budget, limit)
    text = collect([data], limit).text(budget)
    assert text.total == len(data)
    assert len(text.text.encode()) <= max(budget, MARKER_SIZE)
    if not text.truncated:
        assert text.text == data.decode("utf-8", "replace")
    if len(data.decode("utf-8", "replace").encode()) <= budget:
        assert not text.truncated


@given(UTF8, LIMITS)
def test_a_cut_breaks_no_character_and_counts_exactly(data: bytes, limit: int) -> None:
    text = collect([data], limit).text(limit)
    assert "\ufffd" not in text.text
    if text.truncated:
        head, count, tail = MARKER.split(text.text)
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        # The line about the rest takes a newline for its own when the head ends in one.
        assert len(data) - len(head.encode()) - len(tail.encode()) - int(count) in (0, 1)


@given(UTF8.map(lambda data: (data or b"x") * 201), st.integers(150, 200))
def test_head_and_tail_use_what_there_is(data: bytes, limit: int) -> None:
    head, _, tail = MARKER.split(collect([data], limit).text(limit).text)
    assert len(head.encode()) + len(tail.encode()) >= limit - MARKER_SIZE - 8


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=60), st.integers(0, 100))
def test_memory_is_bounded(chunks: list[bytes], limit: int) -> None:
    collector = OutputCollector(limit)
    for chunk in chunks:
        collector.feed(chunk)
        assert len(collector._head) + len(collector._tail) <= 1.5 * limit + 1


@given(ANY, ANY, LIMITS)
def test_two_streams_share_one_limit(first: bytes, second: bytes, limit: int) -> None:
    texts = render_streams(collect([first], limit), collect([second], limit), limit)
    sizes = [len(data.decode("utf-8", "replace").encode()) for data in (first, second)]
    if sum(sizes) <= limit:
        assert not texts[0].truncated
        assert not texts[1].truncated
    assert sum(len(text.text.encode()) for text in texts) <= max(limit, 2 * MARKER_SIZE, limit // 2 + MARKER_SIZE)
    for size, text in zip(sizes, texts, strict=True):
        if size <= limit // 2:
            assert not text.truncated


@pytest.mark.parametrize(
    ("data", "limit", "text"),
    [
        (b"", 100, OutputText("", 0, False)),
        (b"abc", 3, OutputText("abc", 3, False)),
        (b"a" * 200, 100, OutputText("a" * 18 + "\n[... 164 bytes left out ...]\n" + "a" * 18, 200, True)),
        (b"a\n" * 100, 100, OutputText("a\n" * 9 + "[... 164 bytes left out ...]\n" + "a\n" * 9, 200, True)),
        ("ä".encode() * 100, 99, OutputText("ä" * 9 + "\n[... 166 bytes left out ...]\n" + "ä" * 8, 200, True)),
        (b"x" * 100, 0, OutputText("[... 100 bytes left out ...]\n", 100, True)),
        (b"\xff\xfe", 100, OutputText("\ufffd\ufffd", 2, False)),
    ],
)
def test_examples(data: bytes, limit: int, text: OutputText) -> None:
    assert collect([data], limit).text(limit) == text
