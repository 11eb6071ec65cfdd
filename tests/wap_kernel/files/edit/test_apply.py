"""Edits: what they touch, and that they touch nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.edit import apply as editing
from wap_kernel.files.edit.apply import split_lines
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import DeleteLines, Edit, InsertLines, RegexReplace, ReplaceLines, ReplaceText
from wap_kernel.model.errors import Code, TimedOut, TooLarge, WapError

MIB = 1024 * 1024


def apply(data: bytes, changes: Sequence[Edit], *, max_size: int = MIB) -> bytes:
    return editing.apply_edits(data, changes, max_size=max_size, deadline=Deadline(60))


def replace(start: int, end: int, new: str) -> ReplaceLines:
    return ReplaceLines(start_line=start, end_line=end, new_content=new)


def insert(after: int, new: str) -> InsertLines:
    return InsertLines(after_line=after, new_content=new)


def delete(start: int, end: int) -> DeleteLines:
    return DeleteLines(start_line=start, end_line=end)


def regex(pattern: str, replacement: str, flags: str = "") -> RegexReplace:
    return RegexReplace(pattern=pattern, replacement=replacement, flags=flags)


def text(old: str, new: str) -> ReplaceText:
    return ReplaceText(old_content=old, new_content=new)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        # replace: the new last line takes the ending of the line it replaces
        (b"a\nb\nc\n", replace(2, 2, "X"), b"a\nX\nc\n"),
        (b"a\nb\nc\n", replace(2, 2, "X\n"), b"a\nX\nc\n"),
        (b"a\nb\nc\n", replace(1, 3, "X\nY"), b"X\nY\n"),
        (b"a\nb\nc", replace(3, 3, "X"), b"a\nb\nX"),
        (b"a\nb\nc", replace(3, 3, "X\n"), b"a\nb\nX\n"),
        (b"a\nb\nc\n", replace(2, 2, ""), b"a\nc\n"),
        (b"a\nb\nc\n", replace(2, 2, "\n"), b"a\n\nc\n"),
        # CRLF throughout: new lines are CRLF as well
        (b"a\r\nb\r\nc\r\n", replace(2, 2, "X\nY"), b"a\r\nX\r\nY\r\nc\r\n"),
        (b"a\r\nb\r\n", insert(1, "X"), b"a\r\nX\r\nb\r\n"),
        (b"a\r\nb", insert(2, "X"), b"a\r\nb\r\nX"),
        # mixed endings: only what is replaced decides
        (b"a\r\nb\nc\r\n", replace(1, 1, "X"), b"X\r\nb\nc\r\n"),
        (b"a\r\nb\nc\r\n", replace(2, 2, "X"), b"a\r\nX\nc\r\n"),
        # a lone carriage return is a character of the line
        (b"a\rb\nc\n", replace(1, 1, "X"), b"X\nc\n"),
        # insert
        (b"a\nb\n", insert(0, "X"), b"X\na\nb\n"),
        (b"a\nb\n", insert(2, "X"), b"a\nb\nX\n"),
        (b"a\nb", insert(2, "X"), b"a\nb\nX"),
        (b"a", insert(0, "X"), b"X\na"),
        (b"", insert(0, "X"), b"X"),
        (b"a\n", insert(1, ""), b"a\n"),
        # delete
        (b"a\nb\nc\n", delete(1, 2), b"c\n"),
        (b"a\nb", delete(2, 2), b"a\n"),
        (b"a\n", delete(1, 1), b""),
        # text, literally, where it first occurs
        (b"a b a\r\n", text("a", "$1"), b"$1 b a\r\n"),
        (b"\xef\xbb\xbf\xe9 x", text("x", ""), b"\xef\xbb\xbf\xe9 "),
        (b"a\nb\nc", text("\nb\n", "-"), b"a-c"),
        # bytes that are not UTF-8 and the mode of ending stay
        (b"\xe9\nb\n", regex("b", "X"), b"\xe9\nX\n"),
        # a byte order mark stays where it is
        (b"\xef\xbb\xbfa\n\xe9\n", replace(1, 1, "X"), b"\xef\xbb\xbfX\n\xe9\n"),
        (b"\xef\xbb\xbfa\n", replace(1, 1, "\ufeffX"), b"\xef\xbb\xbfX\n"),
        (b"\xef\xbb\xbfa\n", insert(0, "X"), b"\xef\xbb\xbfX\na\n"),
        (b"\xef\xbb\xbf", insert(0, "X"), b"\xef\xbb\xbfX"),
        (b"\xef\xbb\xbfa\nb\n", delete(1, 1), b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", delete(1, 1), b"\xef\xbb\xbf"),
        (b"\xef\xbb\xbfb\r\n", regex("^b", "X"), b"\xef\xbb\xbfX\r\n"),
        (b"\xef\xbb\xbfb", regex(r"^\s*", "X"), b"\xef\xbb\xbfXb"),
        (b"x = 1  \r\ny\r\n", regex("x.*$", "z", "gm"), b"z\r\ny\r\n"),
    ],
)
def test_a_change(before: bytes, change: ReplaceLines, after: bytes) -> None:
    assert apply(before, [change]) == after


def test_changes_apply_in_order_each_to_the_result_of_the_one_before() -> None:
    changes = [delete(1, 1), insert(0, "first"), replace(2, 2, "second")]
    assert apply(b"a\nb\nc\n", changes) == b"first\nsecond\nc\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (replace(0, 1, ""), Code.INVALID_ARGUMENT),
        (replace(2, 1, ""), Code.INVALID_ARGUMENT),
        (replace(3, 4, ""), Code.INVALID_ARGUMENT),
        (replace(4, 4, ""), Code.INVALID_ARGUMENT),
        (insert(4, ""), Code.INVALID_ARGUMENT),
        (delete(1, 9), Code.INVALID_ARGUMENT),
        (regex("nowhere", ""), Code.EDIT_NOT_FOUND),
        (text("nowhere", ""), Code.EDIT_NOT_FOUND),
        (text("", "x"), Code.INVALID_ARGUMENT),
        (text("a", "\udc80"), Code.INVALID_ARGUMENT),
        (text("a", "y" * MIB), Code.SIZE_LIMIT_EXCEEDED),
        (regex("(", ""), Code.INVALID_ARGUMENT),
        (regex("a", "", "gg"), Code.INVALID_ARGUMENT),
        (regex("a", "", "x"), Code.INVALID_ARGUMENT),
        (regex("(x+x+)+y", ""), Code.TIMEOUT),
        (regex("", "y" * 1000, "g"), Code.SIZE_LIMIT_EXCEEDED),
        (insert(0, "y" * MIB), Code.SIZE_LIMIT_EXCEEDED),
        (regex("(?V1)a", ""), Code.INVALID_ARGUMENT),
        (regex("a", "\udc80"), Code.INVALID_ARGUMENT),
        (insert(0, "\ud83d"), Code.INVALID_ARGUMENT),
    ],
)
def test_a_refused_change_names_its_position(change: ReplaceLines, code: Code) -> None:
    with pytest.raises(WapError) as caught:
        apply(b"a\nb\n" + b"x" * 5000, [insert(0, "fine"), delete(1, 1), change])
    assert caught.value.code is code
    assert caught.value.details["operation"] == 2


def test_the_size_is_checked_after_every_change() -> None:
    with pytest.raises(TooLarge) as caught:
        apply(b"a\n", [insert(1, "b" * 10), delete(2, 2)], max_size=10)
    assert caught.value.details["operation"] == 0
    with pytest.raises(TooLarge):
        apply(b"aaaa", [regex("a", "ä", "g")], max_size=7)  # 4 characters, 8 bytes


def test_all_changes_share_one_deadline() -> None:
    class Counted(Deadline):
        left = 3.0

        @property
        def remaining(self) -> float:
            self.left -= 1
            return max(0.0, self.left)

    with pytest.raises(TimedOut) as caught:
        editing.apply_edits(b"a\n", [insert(0, "x")] * 9, max_size=MIB, deadline=Counted(60))
    assert caught.value.details["operation"] == 2


def test_line_edits_one_after_the_other_split_the_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a\n" * 1000
    split: list[int] = []
    monkeypatch.setattr(editing, "split_lines", lambda part: split.append(len(part)) or split_lines(part))
    apply(data, [insert(0, "x")] * 30)
    assert sum(split) == len(data) + 30
    split.clear()
    apply(data, [insert(0, "x"), regex("x", "y"), insert(0, "x"), delete(1, 1)])
    assert [size for size in split if size > 1] == [2000, 2002]


lines_of_any_kind = st.lists(st.sampled_from(["a", "\n", "\r\n", "\r", "ä"]), max_size=8).map("".join)


@given(lines_of_any_kind, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), lines_of_any_kind), max_size=6))
def test_many_changes_are_the_same_as_one_call_for_each(text: str, drawn: list[tuple[int, int, str]]) -> None:
    data, changes = text.encode(), list[Edit]()
    for kind, place, new in drawn:
        total = len(split_lines(data))
        at = min(place, total)
        change = [insert(at, new), replace(at, total, new), delete(at, at), insert(0, new)][kind if at else 0]
        changes.append(change)
        data = apply(data, [change])
    assert apply(text.encode(), changes) == data


anything = st.binary(max_size=200) | st.lists(
    st.sampled_from([b"a", b"\xff", b"\r", b"\n", b"\r\n", b"", b"\xc3\xa4", b"\0"]), max_size=40
).map(b"".join)


@given(anything, st.data())
def test_a_line_edit_leaves_every_byte_outside_its_span_alone(data: bytes, draw: st.DataObject) -> None:
    lines = split_lines(data)
    assert b"".join(lines) == data
    if not lines:
        return
    start = draw.draw(st.integers(1, len(lines)))
    end = draw.draw(st.integers(start, len(lines)))
    new = draw.draw(st.text("ab \r\nä😀", max_size=20))
    before, after = b"".join(lines[: start - 1]), b"".join(lines[end:])
    result = apply(data, [replace(start, end, new)])
    assert result.startswith(before)
    assert result.endswith(after)
    assert split_lines(result)[len(split_lines(result)) - len(lines[end:]) :] == lines[end:]
    assert apply(data, [delete(start, end)]) == before + after


@given(anything, st.data())
def test_an_insertion_is_undone_by_deleting_the_inserted_lines(data: bytes, draw: st.DataObject) -> None:
    lines = split_lines(data)
    after = draw.draw(st.integers(0, len(lines)))
    result = apply(data, [insert(after, "one\ntwo\n")])
    undone = apply(result, [delete(after + 1, after + 2)])
    # Behind a last line without an ending, the ending that had to be added is all that may remain.
    assert undone == data or (after == len(lines) and undone.rstrip(b"\r\n") == data.rstrip(b"\r\n"))


@given(st.lists(st.sampled_from([b"needle", b"\xff\xfe", b"\r\n", b"\n", b"x", b"\xe4\xbd"]), max_size=30))
def test_a_regex_edit_changes_the_matches_and_nothing_else(parts: list[bytes]) -> None:
    data = b"".join(parts)
    if b"needle" in data:
        assert apply(data, [regex("needle", "pin", "g")]) == data.replace(b"needle", b"pin")
