"""Cells of a notebook, changed by their ids. Pure; what a change does not touch stays byte for byte.

A notebook is not read and written anew: the texts of its cells are found in the document and put together again, with
space between them as Jupyter has it. A cell that is new, or has a new source, is written as Jupyter writes it. In a
notebook from before nbformat 4.5, whose cells have no ids, a cell is named by its position at that moment: `cell-0` is
the first.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from wap_kernel.changes import CellChange, DeleteCell, InsertCell, MoveCell, ReplaceCell
from wap_kernel.errors import EditNotFound, InvalidArgument, TooLarge
from wap_kernel.files import json_spans

Cell = dict[str, Any]
MAX_NOTEBOOK = 16 * 1024 * 1024
"""Bytes: other threads stand still while JSON is parsed."""
_INDENT = re.compile(r"\{(\r?\n)([ \t]+)")
_MALFORMED = (ValueError, KeyError, RecursionError)
_ID_LENGTH = 8
_SHOWN = 20
"""Ids that an error names."""


class Document:
    """The text of a notebook, taken apart around its cells."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_NOTEBOOK:
            raise TooLarge(
                f"The notebook has {len(data)} bytes; cells are found in up to {MAX_NOTEBOOK}.",
                hint="Clear the outputs of its cells, or work on it with a command, such as jq.",
                size=len(data),
            )
        try:
            text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
            members = dict(json_spans.members(text))
            start, end = members["cells"]
            found = [(_checked(cell), text[slice(*span)]) for cell, span in json_spans.elements(text, start)]
            self._has_ids = _has_ids(text, members)
            self._about = json.loads(text[slice(*members["metadata"])])
        except _MALFORMED:
            raise InvalidArgument(
                "Not a notebook with cells.", hint="It has to be a complete nbformat 4 document."
            ) from None
        self.cells = [cell for cell, _ in found]
        self._texts = [text for _, text in found]
        self._before, self._after = text[:start], text[end:]
        indent = _INDENT.match(text)
        self._newline: str = indent[1] if indent else ""
        self._indent: str | None = indent[2] if indent else None
        self._ascii = text.isascii() and "\\u" in text

    def __bytes__(self) -> bytes:
        if self._indent is None or not self._texts:
            array = f"[{', '.join(self._texts)}]"
        else:
            begin = self._newline + self._indent * 2
            array = f"[{begin}{f',{begin}'.join(self._texts)}{self._newline}{self._indent}]"
        return f"{self._before}{array}{self._after}".encode()

    @property
    def language(self) -> str | None:
        about = self._about if isinstance(self._about, dict) else {}
        found = about.get("language_info") or about.get("kernelspec")
        name = found.get("name") if isinstance(found, dict) else None
        return name if isinstance(name, str) else None

    @property
    def names(self) -> list[str]:
        """By which a cell is found, in order."""
        return [name_of(cell, position) for position, cell in enumerate(self.cells)]

    def change(self, change: CellChange) -> None:
        _CHANGES[type(change)](self, change)

    def insert(self, change: InsertCell) -> None:
        at = self._place(change.after_cell, change.before_cell)
        cell: Cell = {"cell_type": change.cell_type}
        if change.cell_type == "code":
            cell["execution_count"] = None
        if self._has_ids:
            cell["id"] = self._new_id(change, at)
        elif change.cell_id is not None:
            raise InvalidArgument(
                "The cells of this notebook have no ids.", hint="Leave the id out; this is a format before 4.5."
            )
        cell["metadata"] = {}
        if change.cell_type == "code":
            cell["outputs"] = []
        cell["source"] = _lines(change.source)
        self._texts.insert(at, self._written(cell))
        self.cells.insert(at, cell)

    def replace(self, change: ReplaceCell) -> None:
        at = self._find(change.cell_id)
        cell = dict(self.cells[at])
        kind = change.cell_type or cell["cell_type"]
        if (kind, change.source) == (cell["cell_type"], source_of(cell)):
            return
        cell["source"] = _lines(change.source)
        if kind == "code":  # what it has put out was put out by another source
            cell |= {"execution_count": None, "outputs": []}
        else:
            cell = {name: value for name, value in cell.items() if name not in ("execution_count", "outputs")}
        if kind != cell["cell_type"]:
            cell.pop("attachments", None)
        cell["cell_type"] = kind
        self.cells[at] = cell = dict(sorted(cell.items()))
        self._texts[at] = self._written(cell)

    def delete(self, change: DeleteCell) -> None:
        at = self._find(change.cell_id)
        del self._texts[at], self.cells[at]

    def move(self, change: MoveCell) -> None:
        at = self._find(change.cell_id)
        if change.cell_id in (change.after_cell, change.before_cell):
            raise InvalidArgument("A cell cannot be moved next to itself.", hint="Name another cell.")
        to = self._place(change.after_cell, change.before_cell)
        to -= to > at
        self._texts.insert(to, self._texts.pop(at))
        self.cells.insert(to, self.cells.pop(at))

    def _place(self, after: str | None, before: str | None) -> int:
        """Where a cell goes: next to the one that is named, else to the end."""
        if after is not None and before is not None:
            raise InvalidArgument("afterCell and beforeCell are both given.", hint="Name one of them.")
        if after is not None:
            return self._find(after) + 1
        return len(self._texts) if before is None else self._find(before)

    def _find(self, name: str) -> int:
        names = self.names
        if name not in names:
            known = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            raise EditNotFound(
                "The notebook has no cell of that id.",
                hint=f"Read it again. Its cells: {known or 'none'}.",
                cellId=name,
            )
        return names.index(name)

    def _new_id(self, change: InsertCell, at: int) -> str:
        """The same each time: what a person has agreed to is what is done."""
        taken = set(self.names)
        if change.cell_id is not None:
            if change.cell_id in taken:
                raise InvalidArgument("The notebook has a cell of that id already.", hint="Choose another, or none.")
            return change.cell_id
        count = 0
        while True:
            seed = f"{at} {count} {change.source}".encode("utf-8", "surrogatepass")
            identifier = hashlib.sha256(seed).hexdigest()[:_ID_LENGTH]
            if identifier not in taken:
                return identifier
            count += 1

    def _written(self, cell: Cell) -> str:
        text = json.dumps(cell, indent=self._indent, ensure_ascii=self._ascii)
        return text if self._indent is None else text.replace("\n", self._newline + self._indent * 2)


_CHANGES: dict[type, Callable[[Document, Any], None]] = {
    InsertCell: Document.insert,
    ReplaceCell: Document.replace,
    DeleteCell: Document.delete,
    MoveCell: Document.move,
}


def name_of(cell: Cell, position: int) -> str:
    identifier = cell.get("id")
    return identifier if isinstance(identifier, str) else f"cell-{position}"


def source_of(cell: Cell) -> str:
    return joined(cell.get("source"))


def joined(text: Any) -> str:
    """nbformat has texts whole or as lists of lines."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _checked(cell: Any) -> Cell:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        raise ValueError
    return cell


def _has_ids(text: str, members: dict[str, json_spans.Span]) -> bool:
    major, minor = (int(text[slice(*members[name])]) for name in ("nbformat", "nbformat_minor"))
    if major != 4:
        raise ValueError
    return minor >= 5
