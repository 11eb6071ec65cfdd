"""Edit the cells of a notebook by their ids and preserve all other bytes. Pure.

A notebook is not parsed and serialised anew: the document is split into the texts of its cells and joined again, and in
a cell with a new source only the source is replaced. New text has the format that Jupyter writes. A cell without an id
of its own, like all cells before nbformat 4.5, is named by its present position: `cell-0` is the first.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wap_kernel.files.notebooks import json_spans
from wap_kernel.model.edits import CellEdit, DeleteCell, InsertCell, MoveCell, ReplaceCell
from wap_kernel.model.errors import EditNotFound, InvalidArgument, TooLarge
from wap_kernel.model.limits import MAX_NOTEBOOK_BYTES, MAX_NOTEBOOK_PARTS

Cell = dict[str, Any]
_INDENT = re.compile(r"\{(\r?\n)([ \t]{1,8})(?![ \t])")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MALFORMED = (ValueError, LookupError, RecursionError)
_ID_LENGTH = 8
_MAX_LISTED_IDS = 20
"""Ids that an error lists."""
_CODE_MEMBERS = {"execution_count": "null", "outputs": "[]"}


@dataclass
class _CellText:
    """A cell, its text, and the space around it up to the commas."""

    cell: Cell
    text: str
    before: str
    after: str = ""


class NotebookDocument:
    """The text of a notebook, split into the texts of its cells."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_NOTEBOOK_BYTES or data.count(b"{") + data.count(b"[") > MAX_NOTEBOOK_PARTS:
            raise TooLarge(
                f"The notebook is too large: cells are found in up to {MAX_NOTEBOOK_BYTES} bytes "
                f"and {MAX_NOTEBOOK_PARTS} parts.",
                hint="Clear the outputs of its cells, or work on it with a command, such as jq.",
                size=len(data),
            )
        try:
            text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
            members = dict(json_spans.iterate_members(text))
            start, end = members["cells"]
            self._has_ids = _has_ids(text, members)
            self._about = json.loads(text[slice(*members["metadata"])])
            self._cell_texts = list(_split_cells(text, start))
        except _MALFORMED:
            raise InvalidArgument(
                "Not a notebook with cells.", hint="A notebook is a complete nbformat 4 document."
            ) from None
        indent = _INDENT.match(text)
        self._newline: str = indent[1] if indent else ""
        self._indent: str | None = indent[2] if indent else None
        self._ascii = text.isascii() and "\\u" in text
        self._head, self._tail = text[:start], text[end:]
        self._end = self._line(1)
        """The white space before the end of the list of cells."""
        if self._cell_texts:
            self._end, self._cell_texts[-1].after = self._cell_texts[-1].after, ""

    def __bytes__(self) -> bytes:
        cells = ",".join(f"{one.before}{one.text}{one.after}" for one in self._cell_texts)
        return f"{self._head}[{cells}{self._end if cells else ''}]{self._tail}".encode()

    @property
    def cells(self) -> list[Cell]:
        return [one.cell for one in self._cell_texts]

    @property
    def names(self) -> list[str]:
        """Return the unique names of the cells, in order: their ids, or their positions."""
        names: dict[str, None] = {}
        for position, cell in enumerate(self.cells):
            name = cell.get("id")
            if not isinstance(name, str) or not _ID.fullmatch(name) or name in names:
                name = f"cell-{position}"
            while name in names:
                name += "_"
            names[name] = None
        return list(names)

    @property
    def language(self) -> str | None:
        about = self._about if isinstance(self._about, dict) else {}
        found = about.get("language_info") or about.get("kernelspec")
        name = found.get("name") if isinstance(found, dict) else None
        return name if isinstance(name, str) else None

    def apply(self, edit: CellEdit) -> None:
        _APPLY[type(edit)](self, edit)

    def insert(self, edit: InsertCell) -> None:
        at = self._find_position(edit.after_cell, edit.before_cell)
        members = {"cell_type": json.dumps(edit.cell_type), "metadata": "{}", "source": self._source(edit.source)}
        if edit.cell_type == "code":
            members |= _CODE_MEMBERS
        if self._has_ids:
            members["id"] = json.dumps(self._new_id(edit, at))
        elif edit.cell_id is not None:
            raise InvalidArgument(
                "The cells of this notebook have no ids.", hint="Leave the id out; this is a format before 4.5."
            )
        text = self._compose(members)
        before = self._cell_texts[0].before if self._cell_texts else self._line(2)
        self._cell_texts.insert(at, _CellText(json.loads(text), text, before))

    def replace(self, edit: ReplaceCell) -> None:
        one = self._cell_texts[self._find(edit.cell_id)]
        kind = str(edit.cell_type or one.cell["cell_type"])
        if (kind, edit.source) == (one.cell["cell_type"], get_source(one.cell)):
            return
        spans = dict(json_spans.iterate_members(one.text))
        new = {"source": self._source(edit.source)}
        if kind == "code":  # the outputs belong to the old source
            new |= _CODE_MEMBERS
        if kind == one.cell["cell_type"] and new.keys() <= spans.keys():
            one.text = _replace_spans(one.text, {spans[name]: value for name, value in new.items()})
        else:
            members = {name: one.text[slice(*span)] for name, span in spans.items()}
            for name in (*_CODE_MEMBERS, "attachments"):
                members.pop(name, None)
            one.text = self._compose({**members, "cell_type": json.dumps(kind), **new})
        one.cell = json.loads(one.text)

    def delete(self, edit: DeleteCell) -> None:
        del self._cell_texts[self._find(edit.cell_id)]

    def move(self, edit: MoveCell) -> None:
        at = self._find(edit.cell_id)
        if edit.cell_id in (edit.after_cell, edit.before_cell):
            raise InvalidArgument("A cell cannot be moved next to itself.", hint="Name another cell.")
        to = self._find_position(edit.after_cell, edit.before_cell)
        self._cell_texts.insert(to - (to > at), self._cell_texts.pop(at))

    def _find_position(self, after: str | None, before: str | None) -> int:
        """Return the position of a new cell: next to the named one, else at the end."""
        if after is not None and before is not None:
            raise InvalidArgument("afterCell and beforeCell are both given.", hint="Name one of them.")
        if after is not None:
            return self._find(after) + 1
        return len(self._cell_texts) if before is None else self._find(before)

    def _find(self, name: str) -> int:
        names = self.names
        if name not in names:
            known = ", ".join(names[:_MAX_LISTED_IDS]) + (", ..." if len(names) > _MAX_LISTED_IDS else "")
            raise EditNotFound(
                "The notebook has no cell of that id.",
                hint=f"Read it again. Its cells: {known or 'none'}.",
                cellId=name,
            )
        return names.index(name)

    def _new_id(self, edit: InsertCell, at: int) -> str:
        """Return an id for a new cell that depends only on the edit, so that an approved edit stays the same."""
        taken = set(self.names)
        if edit.cell_id is not None:
            if edit.cell_id in taken:
                raise InvalidArgument("The notebook has a cell of that id already.", hint="Choose another, or none.")
            return edit.cell_id
        count = 0
        while True:
            identifier = hashlib.sha256(f"{at} {count} {edit.source}".encode()).hexdigest()[:_ID_LENGTH]
            if identifier not in taken:
                return identifier
            count += 1

    # -- as Jupyter writes it

    def _line(self, depth: int) -> str:
        """Return the line break and indentation of a value at `depth`."""
        return "" if self._indent is None else self._newline + self._indent * depth

    def _compose(self, members: dict[str, str]) -> str:
        """Return the JSON text of a cell with `members`, whose values are JSON texts."""
        begin = self._line(3)
        written = f",{begin or ' '}".join(f"{json.dumps(name)}: {members[name]}" for name in sorted(members))
        return f"{{{begin}{written}{self._line(2)}}}"

    def _source(self, source: str) -> str:
        text = json.dumps(source.splitlines(keepends=True), indent=self._indent, ensure_ascii=self._ascii)
        return text if self._indent is None else text.replace("\n", self._line(3))


_APPLY: dict[type, Callable[[NotebookDocument, Any], None]] = {
    InsertCell: NotebookDocument.insert,
    ReplaceCell: NotebookDocument.replace,
    DeleteCell: NotebookDocument.delete,
    MoveCell: NotebookDocument.move,
}


def get_source(cell: Cell) -> str:
    return join_lines(cell.get("source"))


def join_lines(text: Any) -> str:
    """Return a text of nbformat, which may be a list of lines, as one string."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _split_cells(text: str, start: int) -> Iterator[_CellText]:
    last = start + 1  # what follows the bracket, or a comma
    for cell, (begin, end) in json_spans.iterate_elements(text, start):
        if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
            raise ValueError(cell)
        following = end
        while text[following] not in ",]":
            following += 1
        yield _CellText(cell, text[begin:end], text[last:begin], text[end:following])
        last = following + 1


def _replace_spans(text: str, new: dict[json_spans.Span, str]) -> str:
    for (start, end), value in sorted(new.items(), reverse=True):
        text = text[:start] + value + text[end:]
    return text


def _has_ids(text: str, members: dict[str, json_spans.Span]) -> bool:
    major, minor = (int(text[slice(*members[name])]) for name in ("nbformat", "nbformat_minor"))
    if major != 4:
        raise ValueError(major)
    return minor >= 5
