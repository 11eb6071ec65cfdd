"""What is changed in a file: lines, text, or cells of a notebook. One model per kind, shared by every dialect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wap_kernel.model.base import Model


class ReplaceLines(Model):
    type: Literal["replace"] = "replace"
    start_line: int
    end_line: int
    new_content: str


class InsertLines(Model):
    type: Literal["insert"] = "insert"
    after_line: int
    new_content: str


class DeleteLines(Model):
    type: Literal["delete"] = "delete"
    start_line: int
    end_line: int


class RegexReplace(Model):
    type: Literal["regexReplace"] = "regexReplace"
    pattern: str
    replacement: str
    flags: str = ""


class ReplaceText(Model):
    """Literally."""

    type: Literal["replaceText"] = "replaceText"
    old_content: str
    new_content: str
    which: Literal["first", "only", "every"] = "first"
    """Of its occurrences; `only` fails if there are more than one."""


CellType = Literal["code", "markdown", "raw"]


class InsertCell(Model):
    type: Literal["insertCell"] = "insertCell"
    cell_type: CellType = "code"
    source: str
    cell_id: str | None = None
    after_cell: str | None = None
    before_cell: str | None = None
    """Neither: at the end."""


class ReplaceCell(Model):
    type: Literal["replaceCell"] = "replaceCell"
    cell_id: str
    source: str
    cell_type: CellType | None = None
    """None: what it is."""


class DeleteCell(Model):
    type: Literal["deleteCell"] = "deleteCell"
    cell_id: str


class MoveCell(Model):
    type: Literal["moveCell"] = "moveCell"
    cell_id: str
    after_cell: str | None = None
    before_cell: str | None = None


CellEdit = InsertCell | ReplaceCell | DeleteCell | MoveCell
Edit = Annotated[
    ReplaceLines | InsertLines | DeleteLines | RegexReplace | ReplaceText | CellEdit, Field(discriminator="type")
]
