"""The edits of a file: of lines, of text, of notebook cells. One model for each, shared by every dialect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wap_kernel.model.base import Model


class ReplaceLines(Model):
    """Replace a range of lines."""

    type: Literal["replace"] = "replace"
    start_line: int
    end_line: int
    new_content: str


class InsertLines(Model):
    """Insert lines after a line; 0 inserts at the beginning."""

    type: Literal["insert"] = "insert"
    after_line: int
    new_content: str


class DeleteLines(Model):
    """Delete a range of lines."""

    type: Literal["delete"] = "delete"
    start_line: int
    end_line: int


class RegexReplace(Model):
    """Replace the matches of a JavaScript regular expression."""

    type: Literal["regexReplace"] = "regexReplace"
    pattern: str
    replacement: str
    flags: str = ""


class ReplaceText(Model):
    """Replace a literal text."""

    type: Literal["replaceText"] = "replaceText"
    old_content: str
    new_content: str
    which: Literal["first", "only", "every"] = "first"
    """The occurrences that are replaced; `only` fails if there are more than one."""


CellType = Literal["code", "markdown", "raw"]


class InsertCell(Model):
    """Insert a notebook cell: after a cell, before a cell, or at the end."""

    type: Literal["insertCell"] = "insertCell"
    cell_type: CellType = "code"
    source: str
    cell_id: str | None = None
    after_cell: str | None = None
    before_cell: str | None = None


class ReplaceCell(Model):
    """Replace the source, and optionally the type, of a notebook cell."""

    type: Literal["replaceCell"] = "replaceCell"
    cell_id: str
    source: str
    cell_type: CellType | None = None
    """The new type. None: the present one."""


class DeleteCell(Model):
    """Delete a notebook cell."""

    type: Literal["deleteCell"] = "deleteCell"
    cell_id: str


class MoveCell(Model):
    """Move a notebook cell after or before another one."""

    type: Literal["moveCell"] = "moveCell"
    cell_id: str
    after_cell: str | None = None
    before_cell: str | None = None


CellEdit = InsertCell | ReplaceCell | DeleteCell | MoveCell
Edit = Annotated[
    ReplaceLines | InsertLines | DeleteLines | RegexReplace | ReplaceText | CellEdit, Field(discriminator="type")
]
