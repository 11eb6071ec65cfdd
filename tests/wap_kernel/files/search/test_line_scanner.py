"""Lines in blocks: the same answer wherever the blocks are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.interface import FileKind, Stat
from wap_kernel.files.overlay.handles import VirtualFile
from wap_kernel.files.search.line_scanner import Hit, compute_column, find_hits, read_column, read_lines, split_lines
from wap_kernel.model.limits import MAX_MATCH_LINE_CHARACTERS

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
    expected = []
    start = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if literal in line:
            expected.append(Hit(number, start, line.index(literal)))
        start += len(line) + 1
    assert find_hits(cut(data, size), literal, limit) == expected[:limit]


strays = [bytes([byte]) for byte in b"\x80\x9f\xc3\xe0\xe2\xed\xf0\xf4\xff"]
pieces = st.sampled_from([b"a", b"\n", b"\r", "é".encode(), "€".encode(), "😀".encode(), *strays])


class InMemory(VirtualFile):
    def __init__(self, data: bytes) -> None:
        super().__init__(Stat("f", FileKind.FILE, len(data), 0, 0o644), data)


@given(st.lists(pieces, max_size=12).map(b"".join), st.data())
def test_the_column_is_that_of_the_character_in_the_decoded_line(data: bytes, draw: st.DataObject) -> None:
    """Wherever a pattern matches, also in the middle of a character and where a line or the file ends."""
    start = draw.draw(st.sampled_from([0, *(at + 1 for at, byte in enumerate(data) if byte == 0x0A)]))
    line = data[start:].partition(b"\n")[0]
    at = draw.draw(st.integers(0, len(line)))
    expected = 1 + sum(end <= at for end in _ends(line))
    hit = Hit(1, start, at)
    assert compute_column(data, hit) == read_column(InMemory(data), hit, lambda: None) == expected


def _ends(line: bytes) -> list[int]:
    """Where each character of the decoded line ends in the bytes."""
    ends, at = [], 0
    while at < len(line):
        try:
            width = len(line[at:].decode("utf-8")[0].encode())
        except UnicodeDecodeError as error:
            width = error.end if error.start == 0 else len(line[at : at + error.start].decode("utf-8")[0].encode())
        at += width
        ends.append(at)
    assert len(ends) == len(line.decode("utf-8", "replace"))
    return ends


def test_a_column_far_along_a_line_that_is_not_held_whole() -> None:
    data = b"x\n" + "é".encode() * 300_000 + b"needle"
    (hit,) = find_hits(cut(data, 4096), b"needle", 5)
    assert hit == Hit(2, 2, 600_000)
    assert read_column(InMemory(data), hit, lambda: None) == compute_column(data, hit) == 300_001


@given(texts, st.integers(1, 9), st.sets(st.integers(-2, 12)))
def test_texts_of_lines(data: bytes, size: int, numbers: set[int]) -> None:
    expected = {number: line.decode("utf-8", "replace") for number, line in enumerate(lines_of(data), 1)}
    wanted = {n: text for n, text in expected.items() if n in numbers}
    assert read_lines(cut(data, size), numbers) == wanted
    assert split_lines(data, numbers) == wanted


def test_a_long_line_is_cut_at_a_character() -> None:
    data = b"x\n" + "😀".encode() * 100_000 + b"\r\nlast"
    for size in (7, 4096, len(data)):
        found = read_lines(cut(data, size), [1, 2, 3])
        cut_line = "😀" * (MAX_MATCH_LINE_CHARACTERS - 3) + "..."
        assert found == split_lines(data, [1, 2, 3]) == {1: "x", 2: cut_line, 3: "last"}


def test_reading_stops_after_the_last_wanted_line() -> None:
    source = iter([b"one\n", b"two\n", b"three\n"])
    assert read_lines(source, [1]) == {1: "one"}
    assert list(source) == [b"two\n", b"three\n"]
