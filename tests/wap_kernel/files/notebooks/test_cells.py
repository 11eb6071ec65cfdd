"""Cells of a notebook by their ids: the same document as nbformat would write, and not a byte more is changed."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.files.notebooks import cells
from wap_kernel.files.notebooks.cells import NotebookDocument
from wap_kernel.model.edits import CellEdit, DeleteCell, InsertCell, MoveCell, ReplaceCell
from wap_kernel.model.errors import EditNotFound, InvalidArgument, TooLarge, WapError

PRINTED = nbformat.v4.new_output("stream", text="42\n")


def notebook(*sources: str, minor: int = 5) -> Any:
    """Code cells with ids a, b, c ..., each of which has put out something."""
    made = nbformat.v4.new_notebook(nbformat_minor=minor)
    for number, source in enumerate(sources):
        cell = nbformat.v4.new_code_cell(source, id=chr(ord("a") + number), execution_count=1, outputs=[PRINTED])
        if minor < 5:
            del cell["id"]
        made.cells.append(cell)
    return made


def changed(data: str | bytes, *changes: CellEdit) -> str:
    document = NotebookDocument(data.encode() if isinstance(data, str) else data)
    for change in changes:
        document.apply(change)
    return bytes(document).decode()


def sources(text: str) -> list[str]:
    found = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(found)
    return [cell.source for cell in found.cells]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (InsertCell(source="new"), ["1", "2", "3", "new"]),
        (InsertCell(source="new", before_cell="a"), ["new", "1", "2", "3"]),
        (InsertCell(source="new", after_cell="a", cell_type="markdown"), ["1", "new", "2", "3"]),
        (ReplaceCell(cell_id="b", source="two\nlines"), ["1", "two\nlines", "3"]),
        (ReplaceCell(cell_id="b", source="# Two", cell_type="markdown"), ["1", "# Two", "3"]),
        (DeleteCell(cell_id="a"), ["2", "3"]),
        (MoveCell(cell_id="a"), ["2", "3", "1"]),
        (MoveCell(cell_id="a", after_cell="b"), ["2", "1", "3"]),
        (MoveCell(cell_id="c", before_cell="a"), ["3", "1", "2"]),
        (MoveCell(cell_id="b", before_cell="c"), ["1", "2", "3"]),
    ],
)
@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
def test_one_change(change: CellEdit, expected: list[str], indent: Any) -> None:
    written = nbformat.writes(notebook("1", "2", "3"))
    assert sources(changed(json.dumps(json.loads(written), indent=indent), change)) == expected


def test_a_new_source_clears_what_the_old_one_put_out() -> None:
    before = nbformat.writes(notebook("1", "2"))
    after = nbformat.reads(changed(before, ReplaceCell(cell_id="a", source="3")), as_version=4)
    assert (after.cells[0].outputs, after.cells[0].execution_count) == ([], None)
    assert after.cells[1].outputs == [PRINTED]
    assert changed(before, ReplaceCell(cell_id="a", source="1")) == before, "the same source is no change"
    text = nbformat.reads(changed(before, ReplaceCell(cell_id="a", source="x", cell_type="raw")), as_version=4)
    assert sorted(text.cells[0]) == ["cell_type", "id", "metadata", "source"]


def test_an_id_may_be_chosen_and_is_the_same_each_time_otherwise() -> None:
    before = nbformat.writes(notebook("1"))
    insert = InsertCell(source="new")
    first = NotebookDocument(changed(before, insert).encode())
    second = NotebookDocument(changed(before, insert, insert).encode())
    assert first.names[:2] == second.names[:2] and len(set(second.names)) == 3
    assert NotebookDocument(changed(before, InsertCell(source="", cell_id="mine")).encode()).names == ["a", "mine"]


def test_cells_without_ids_are_named_by_their_position() -> None:
    before = nbformat.writes(notebook("1", "2", "3", minor=4))
    assert NotebookDocument(before.encode()).names == ["cell-0", "cell-1", "cell-2"]
    after = changed(before, DeleteCell(cell_id="cell-0"), ReplaceCell(cell_id="cell-0", source="now first"))
    assert sources(after) == ["now first", "3"]
    inserted = changed(after, InsertCell(source="new", after_cell="cell-0"))
    assert sources(inserted) == ["now first", "new", "3"] and '"id"' not in inserted
    with pytest.raises(InvalidArgument):
        changed(before, InsertCell(source="new", cell_id="mine"))


def test_what_no_change_touches_stays_byte_for_byte() -> None:
    odd = '{\r\n "nbformat": 4, "nbformat_minor":5,\r\n "metadata": {"x": 1e5, "y": "\\u00e9\\/"},\r\n "cells": [\r\n  '
    cell = '{"source": "1", "id": "a",  "cell_type": "raw", "metadata": {"n": 1.50}}'
    end = '\r\n ],\r\n  "more":[ ]}\r\n\r\n'
    after = changed(odd + cell + end, InsertCell(source="é", cell_id="b", cell_type="raw"))
    assert after.startswith(odd + cell + ",") and after.endswith(end)
    assert changed(after, DeleteCell(cell_id="b")) == odd + cell + end
    assert changed(odd + cell + end, DeleteCell(cell_id="a")) == odd[: odd.rindex("[") + 1] + end[end.index("]") :]


@pytest.mark.parametrize(
    "change",
    [
        ReplaceCell(cell_id="z", source=""),
        DeleteCell(cell_id=""),
        MoveCell(cell_id="z"),
        MoveCell(cell_id="a", after_cell="z"),
        InsertCell(source="", before_cell="z"),
    ],
)
def test_an_unknown_cell_is_told_the_known_ones(change: CellEdit) -> None:
    with pytest.raises(EditNotFound) as caught:
        changed(nbformat.writes(notebook("1", "2")), change)
    assert "a, b" in caught.value.text


@pytest.mark.parametrize(
    "change",
    [
        InsertCell(source="", cell_id="a"),
        InsertCell(source="", after_cell="a", before_cell="b"),
        MoveCell(cell_id="a", after_cell="a"),
    ],
)
def test_changes_that_make_no_sense_are_refused(change: CellEdit) -> None:
    with pytest.raises(InvalidArgument):
        changed(nbformat.writes(notebook("1", "2")), change)


NO_NOTEBOOKS = [
    *("", "{", "[]", "{}", "null", '{"cells"', '{"cells": [', '{"cells": 1}', '{"cells": {}}', "x" * 100),
    *('{"cells": [1], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', '{"cells": [], "metadata": {}}'),
    *(
        '{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}} x',
        '{"cells": [], "nbformat": 4 "metadata": {}}',
    ),
    *('{"cells": [], "nbformat": 3, "nbformat_minor": 0, "metadata": {}}', '{"cells": ' + "[" * 100_000),
]


@pytest.mark.parametrize("text", NO_NOTEBOOKS, ids=range(len(NO_NOTEBOOKS)))
def test_what_is_no_notebook(text: str) -> None:
    with pytest.raises(InvalidArgument):
        NotebookDocument(text.encode())
    with pytest.raises(InvalidArgument):
        NotebookDocument(text.encode() + b"\xff")


@pytest.mark.parametrize("bound", ["MAX_NOTEBOOK_BYTES", "MAX_NOTEBOOK_PARTS"])
def test_a_huge_notebook_is_not_parsed(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(cells, bound, 5)
    with pytest.raises(TooLarge):
        NotebookDocument(nbformat.writes(notebook("1")).encode())


@pytest.mark.parametrize(
    "layout",
    [
        '{{"nbformat":4,"nbformat_minor":5,"metadata":{{}},"cells":[{0},{1}]}}',
        '{{"nbformat":4,"nbformat_minor":5,"metadata":{{}},"cells":[ {0} ,\n\n{1}\t]}}\n',
        '{{\n  "cells": [{0}, {1}],\n  "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5\n}}',
    ],
)
def test_any_layout_stays(layout: str) -> None:
    """Space between cells, and numbers that a parser would write in another way."""
    first = (
        '{"source":["1"],"id":"a","cell_type":"code","metadata":{"n":1e999,"m":1.50},"outputs":[ ],"execution_count":7}'
    )
    second = '{"cell_type": "raw", "id": "b", "metadata": {}, "source": ""}'
    text = layout.format(first, second)
    assert changed(text, ReplaceCell(cell_id="a", source="1")) == text
    assert changed(text, MoveCell(cell_id="a", before_cell="b")) == text
    other = first.replace('["1"]', '["é"]').replace("[ ]", "[]").replace("7}", "null}")
    after = changed(text, ReplaceCell(cell_id="a", source="é"))
    assert "".join(after.split()) == "".join(layout.format(other, second).split())
    assert after.endswith(text[text.index(second) :]), "only the new source is laid out anew"


def test_an_indentation_that_is_no_such_is_not_repeated() -> None:
    cell = '{"cell_type": "raw", "metadata": {}, "source": ""}'
    bomb = "{\n" + " " * 10_000 + f'"cells":[{cell}],"metadata":{{}},"nbformat":4,"nbformat_minor":4}}'
    assert len(changed(bomb, *[InsertCell(source="z")] * 100)) < len(bomb) + 100 * 200


def test_half_characters_stay_what_they_are() -> None:
    made = json.loads(nbformat.writes(notebook("1", "é")))
    made["cells"][0] |= {"source": ["\ud800"], "metadata": {"k": "\udfff"}}
    text = json.dumps(made, indent=1)
    after = changed(text, ReplaceCell(cell_id="a", source="z"), ReplaceCell(cell_id="b", source="y", cell_type="raw"))
    assert json.loads(after)["cells"][0]["metadata"] == {"k": "\udfff"}


def test_each_cell_has_a_name_of_its_own() -> None:
    odd = [{"id": "x"}, {"id": "x"}, {}, {"id": "cell-1"}, {"id": "no name"}, {"id": 3}, {"id": "cell-6"}, {"id": "y"}]
    found = [{"cell_type": "raw", "metadata": {}, "source": str(number), **one} for number, one in enumerate(odd)]
    text = json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    names = NotebookDocument(text.encode()).names
    assert names == ["x", "cell-1", "cell-2", "cell-3", "cell-4", "cell-5", "cell-6", "y"]
    for number, name in enumerate(names):
        after = json.loads(changed(text, ReplaceCell(cell_id=name, source="new")))
        assert [cell["source"] for cell in after["cells"]].index(["new"]) == number


texts = st.text(st.sampled_from('ab \n\té\u2028\\"'), max_size=8)
names = st.sampled_from(["a", "b", "c", "d", "new", None])
known = st.sampled_from(["a", "b", "c", "d", "new"])
kinds = st.sampled_from(["code", "markdown", "raw"])


def built(kind: Any, **fields: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda found: kind(**found))


changes = st.one_of(
    built(InsertCell, source=texts, cell_type=kinds, cell_id=st.just("new"), after_cell=names),
    built(ReplaceCell, cell_id=known, source=texts, cell_type=kinds | st.none()),
    built(DeleteCell, cell_id=known),
    built(MoveCell, cell_id=known, before_cell=names),
)


def _by_nbformat(made: Any, change: CellEdit) -> None:
    """Apply the edit by a simple reference implementation."""
    ids = [cell.id for cell in made.cells]
    if isinstance(change, DeleteCell):
        del made.cells[ids.index(change.cell_id)]
    elif isinstance(change, ReplaceCell):
        old = made.cells[ids.index(change.cell_id)]
        kind = change.cell_type or old.cell_type
        if (kind, change.source) != (old.cell_type, old.source):
            make = getattr(nbformat.v4, f"new_{kind}_cell")
            made.cells[ids.index(change.cell_id)] = make(change.source, id=old.id, metadata=old.metadata)
    elif isinstance(change, MoveCell):
        moved = made.cells.pop(ids.index(change.cell_id))
        rest = [cell.id for cell in made.cells]
        made.cells.insert(len(rest) if change.before_cell is None else rest.index(change.before_cell), moved)
    else:
        at = len(ids) if change.after_cell is None else ids.index(change.after_cell) + 1
        made.cells.insert(at, getattr(nbformat.v4, f"new_{change.cell_type}_cell")(change.source, id="new"))


@given(st.lists(texts, max_size=4), st.lists(changes, max_size=4))
def test_the_document_is_what_nbformat_would_write(before: list[str], wanted: list[CellEdit]) -> None:
    made = notebook(*before)
    text = nbformat.writes(made)
    for change in wanted:
        try:
            text = changed(text, change)
        except WapError:
            assert isinstance(change, MoveCell) or _names_none(made, change)
            continue
        _by_nbformat(made, change)
        assert text == nbformat.writes(made)


def _names_none(made: Any, change: CellEdit) -> bool:
    ids = {cell.id for cell in made.cells}
    if isinstance(change, InsertCell):
        return "new" in ids or not {change.after_cell} - {None} <= ids
    return change.cell_id not in ids
