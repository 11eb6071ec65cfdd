"""Line endings are no difference: the file's own are found and inserted, whatever the caller writes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.edit.apply import apply_edits, count_replacements
from wap_kernel.files.edit.newlines import convert_newlines, find_ending, find_regions
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import Edit, InsertLines, RegexReplace, ReplaceLines, ReplaceText
from wap_kernel.model.errors import EditAmbiguous, EditNotFound, InvalidArgument

ENDINGS = (b"\n", b"\r\n")


def apply(data: bytes, *edits: Edit) -> bytes:
    return apply_edits(data, edits, max_size=10_000, deadline=Deadline(60))


def text(old: str, new: str, which: str = "first") -> ReplaceText:
    return ReplaceText.model_validate({"old_content": old, "new_content": new, "which": which})


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("old", ["one\ntwo\nthree", "one\r\ntwo\r\nthree", "one\r\ntwo\nthree"])
@pytest.mark.parametrize("new", ["one\n2\n2b\nthree", "one\r\n2\r\n2b\r\nthree", "one\n2\r\n2b\nthree"])
@pytest.mark.parametrize("which", ["first", "only"])
def test_a_text_is_replaced_with_the_endings_of_the_file(ending: bytes, old: str, new: str, which: str) -> None:
    data = convert_newlines(b"zero\none\ntwo\nthree\nlast", ending)
    expected = convert_newlines(b"zero\none\n2\n2b\nthree\nlast", ending)
    assert apply(data, text(old, new, which)) == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_occurrence_is_replaced_and_counted(ending: bytes) -> None:
    data = convert_newlines(b"a\nb\n-\na\nb\n", ending)
    edit = text("a\nb", "a\r\nc", "every")
    assert apply(data, edit) == convert_newlines(b"a\nc\n-\na\nc\n", ending)
    assert count_replacements(data, [edit]) == 2
    with pytest.raises(EditAmbiguous) as caught:
        apply(data, text("a\r\nb", "x", "only"))
    assert caught.value.details["occurrences"] == 2


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_line_that_gains_lines_keeps_the_endings(ending: bytes) -> None:
    data = convert_newlines(b"a\nb\n", ending)
    for new in ("b\nc", "b\r\nc"):
        assert apply(data, text("b", new)) == convert_newlines(b"a\nb\nc\n", ending)


MIXED = b"a\r\nb\r\nc\nd\na\nb\n"


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        # The exact text counts, wherever it stands.
        (text("a\nb", "x\ny"), b"a\r\nb\r\nc\nd\nx\ny\n"),
        (text("a\r\nb", "x\ny"), b"x\ny\r\nc\nd\na\nb\n"),
        (text("a\nb", "x", "only"), b"a\r\nb\r\nc\nd\nx\n"),
        # Text that only stands there with other endings takes those of the lines that it replaces.
        (text("b\nc", "x\ny"), b"a\r\nx\r\ny\nd\na\nb\n"),
        (text("c\r\nd", "x\r\ny"), b"a\r\nb\r\nx\ny\na\nb\n"),
        # Both kinds in the region: the usual ending of the file.
        (text("a\nb\nc\n", "x\ny\n"), b"x\ny\nd\na\nb\n"),
        # Lines take the ending of those that they replace or follow.
        (ReplaceLines(start_line=1, end_line=2, new_content="x\ny"), b"x\r\ny\r\nc\nd\na\nb\n"),
        (ReplaceLines(start_line=3, end_line=3, new_content="x\ny\n"), b"a\r\nb\r\nx\ny\nd\na\nb\n"),
        (InsertLines(after_line=1, new_content="x\ny\n"), b"a\r\nx\r\ny\r\nb\r\nc\nd\na\nb\n"),
        (InsertLines(after_line=3, new_content="x\r\ny\r\n"), b"a\r\nb\r\nc\nx\r\ny\r\nd\na\nb\n"),
    ],
)
def test_a_file_with_both_kinds(edit: Edit, after: bytes) -> None:
    assert apply(MIXED, edit) == after


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("new", ["x\ny", "x\r\ny", "x\r\ny\n"])
def test_lines_get_the_endings_of_the_file(ending: bytes, new: str) -> None:
    data = convert_newlines(b"a\nb\nc", ending)
    assert apply(data, ReplaceLines(start_line=2, end_line=2, new_content=new)) == convert_newlines(
        b"a\nx\ny\nc", ending
    )
    assert apply(data, InsertLines(after_line=1, new_content=new)) == convert_newlines(b"a\nx\ny\nb\nc", ending)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("pattern", [r"a\nb", r"a\r\nb", "a\nb", "a\r\nb", r"a\r?\nb"])
@pytest.mark.parametrize("new", ["x\ny", "x\r\ny"])
def test_a_pattern_finds_and_leaves_the_endings_of_the_file(ending: bytes, pattern: str, new: str) -> None:
    data = convert_newlines(b"-\na\nb\n-", ending)
    edit = RegexReplace(pattern=pattern, replacement=new)
    assert apply(data, edit) == convert_newlines(b"-\nx\ny\n-", ending)


def test_a_pattern_converts_all_endings_on_purpose() -> None:
    assert apply(b"a\r\nb\r\n", RegexReplace(pattern=r"\r\n", replacement="\n", flags="g")) == b"a\nb\n"
    assert apply(b"a\nb\n", RegexReplace(pattern=r"\n", replacement="\r\n", flags="g")) == b"a\r\nb\r\n"
    assert apply(b"a\r\nb\r\n", RegexReplace(pattern=r"\n", replacement="\n\n", flags="g")) == b"a\r\n\r\nb\r\n\r\n"


def test_bytes_that_a_pattern_does_not_match_stay() -> None:
    data = b"\xff\r\r\na\r\nb\r\n"
    assert apply(data, RegexReplace(pattern="a", replacement="x\ny")) == b"\xff\r\r\nx\r\ny\r\nb\r\n"
    with pytest.raises(EditNotFound):
        apply(data, RegexReplace(pattern=r"a\nb", replacement="x"))


@pytest.mark.parametrize(
    ("data", "old", "new"), [(b"a\n", "a", "a"), (b"a\r\nb\r\n", "a\nb", "a\r\nb"), (b"a\nb", "a\r\nb", "a\nb")]
)
def test_an_edit_that_changes_nothing_is_refused(data: bytes, old: str, new: str) -> None:
    with pytest.raises(InvalidArgument, match="identical"):
        apply(data, text(old, new))


words = st.lists(st.sampled_from(["a", "b", "ab", "\n", "\r\n"]), max_size=12).map("".join)


@given(words, words, words, st.sampled_from(ENDINGS), st.sampled_from(["first", "every"]))
def test_no_edit_leaves_both_kinds_in_a_file_that_had_one(
    content: str, old: str, new: str, ending: bytes, which: str
) -> None:
    data = convert_newlines(content.encode(), ending)
    same, wanted = (convert_newlines(part.encode(), ending) for part in (new, old))
    if not old or same == wanted or find_ending(data) is None:
        return
    try:
        result = apply(data, text(old, new, which))
    except EditNotFound:
        assert wanted not in data
    else:
        assert result == data.replace(wanted, same, -1 if which == "every" else 1)
        assert convert_newlines(result, ending) == result


@given(words, words)
def test_regions_are_where_the_text_stands_without_regard_to_endings(content: str, wanted: str) -> None:
    if not wanted:
        return
    data, simple = content.encode(), wanted.replace("\r\n", "\n").encode()
    regions = find_regions(data, wanted.encode())
    assert len(regions) == data.replace(b"\r\n", b"\n").count(simple)
    assert all(data[start:end].replace(b"\r\n", b"\n") == simple for start, end in regions)
    assert all(before.end <= after.start for before, after in pairwise(regions))
