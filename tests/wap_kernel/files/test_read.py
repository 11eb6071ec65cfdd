"""Reading: whole and by ranges."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wap_kernel.files import read as reading
from wap_kernel.files.contained.root import Root
from wap_kernel.files.read import read_file
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import ReadFile
from wap_kernel.model.results import FileContent, Limits


def read(root: Root, data: bytes, *, limits: Limits | None = None, **fields: object) -> FileContent:
    (Path(root.path) / "f").write_bytes(data)
    operation = ReadFile.model_validate({"path": "f", **fields})
    return read_file(root, operation, limits or Limits(), root.path)


@pytest.mark.parametrize(
    ("data", "content", "lines"),
    [
        (b"", "", 0),
        (b"a", "a", 1),
        (b"a\n", "a\n", 1),
        (b"a\nb", "a\nb", 2),
        (b"\n", "\n", 1),
        (b"a\r\nb\r\n", "a\r\nb\r\n", 2),
        (b"a\rb", "a\rb", 1),
        (b"\xef\xbb\xbfa\n", "\ufeffa\n", 1),
    ],
)
def test_content_as_it_is_in_the_file(root: Root, data: bytes, content: str, lines: int) -> None:
    answer = read(root, data)
    assert (answer.content, answer.total_lines, answer.returned_lines) == (content, lines, lines)
    assert answer.is_lossy is None
    assert not answer.is_truncated


def test_bytes_that_are_not_utf8_are_replaced_and_said_so(root: Root) -> None:
    answer = read(root, b"caf\xe9\n")
    assert answer.content == "caf\ufffd\n"
    assert answer.is_lossy is True


def test_a_binary_file_is_named_with_size_and_type(root: Root) -> None:
    (Path(root.path) / "x.png").write_bytes(b"\x89PNG\0\0")
    for fields in ({}, {"start_line": 1}):
        with pytest.raises(WapError) as caught:
            read_file(root, ReadFile.model_validate({"path": "x.png", **fields}), Limits(), root.path)
        assert caught.value.code is Code.BINARY_FILE
        assert caught.value.details == {"size": 6, "type": "image/png"}


def test_base64_reads_anything(root: Root) -> None:
    data = bytes(range(256)) * 3
    assert base64.b64decode(read(root, data, encoding="base64").content) == data


@pytest.mark.parametrize(
    ("start", "end", "content"),
    [(1, 1, "1\n"), (2, 3, "2\n3\n"), (4, 4, "4"), (3, 99, "3\n4"), (None, 2, "1\n2\n"), (3, None, "3\n4")],
)
def test_a_range_gives_those_lines(root: Root, start: int | None, end: int | None, content: str) -> None:
    answer = read(root, b"1\n2\n3\n4", start_line=start, end_line=end)
    assert answer.content == content
    assert (answer.total_lines, answer.is_truncated) == (4, False)


@pytest.mark.parametrize(("start", "end"), [(5, None), (5, 9), (3, 2)])
def test_a_range_that_is_not_there_is_refused(root: Root, start: int, end: int | None) -> None:
    with pytest.raises(WapError) as caught:
        read(root, b"1\n2\n3\n4", start_line=start, end_line=end)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_the_first_line_of_an_empty_file_is_empty(root: Root) -> None:
    assert read(root, b"", start_line=1, end_line=100).content == ""


def test_a_file_over_the_limit_is_refused_whole_and_readable_by_range(root: Root) -> None:
    limits = Limits(max_file_size=10)
    with pytest.raises(WapError) as caught:
        read(root, b"12345\n" * 4, limits=limits)
    assert caught.value.code is Code.SIZE_LIMIT_EXCEEDED
    assert "24 bytes" in caught.value.text
    assert "startLine" in caught.value.text
    answer = read(root, b"12345\n" * 4, limits=limits, start_line=2, end_line=4)
    assert (answer.content, answer.is_truncated, answer.returned_lines) == ("12345\n", True, 1)


def test_one_long_line_is_cut_between_characters(root: Root) -> None:
    answer = read(root, "ä".encode() * 100, limits=Limits(max_file_size=11), start_line=1)
    assert (answer.content, answer.is_truncated) == ("ä" * 5, True)


def test_a_huge_sparse_file_is_refused_at_once(root: Root) -> None:
    with (Path(root.path) / "f").open("wb") as file:
        file.truncate(10 * 1024**3)
    for fields in ({}, {"start_line": 1, "end_line": 2}):
        with pytest.raises(WapError) as caught:
            read_file(root, ReadFile.model_validate({"path": "f", **fields}), Limits(), root.path)
        assert caught.value.code is Code.SIZE_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123Z"),
        (10**21, "9999-12-31T23:59:59.999Z"),
        (-(10**21), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times_end_in_z_also_beyond_the_calendar(nanoseconds: int, shown: str) -> None:
    assert reading.format_mtime(nanoseconds) == shown


@given(data=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\xff", b"\xc3\xa4", b""]), max_size=60).map(b"".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("chunk", [1, 3, 1024])
def test_ranges_put_the_file_together_again(
    root: Root, monkeypatch: pytest.MonkeyPatch, chunk: int, data: bytes
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    whole = read(root, data, encoding="base64")
    pieces = []
    for start in range(1, whole.total_lines + 1, 2):
        answer = read(root, data, encoding="base64", start_line=start, end_line=start + 1)
        assert (answer.total_lines, answer.hash) == (whole.total_lines, whole.hash)
        pieces.append(base64.b64decode(answer.content))
    assert b"".join(pieces) == data
