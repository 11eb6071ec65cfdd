"""readNotebook and editNotebook: WAP's tools for cells, with this dialect's paths and spelling."""

from __future__ import annotations

from pydantic import Field

from wap_kernel.dialects import wap_notebooks
from wap_kernel.dialects.coding_environment.parameters import Confirmed, Path, Placed, small
from wap_kernel.dialects.coding_environment.places import Place, shown
from wap_kernel.dialects.wap_parameters import Hash
from wap_kernel.models import Model
from wap_kernel.operations import ModifyFile, Operation, ReadNotebook
from wap_kernel.results import NotebookCell, NotebookContent


class ReadNotebookParameters(Placed):
    path: Path
    cell_ids: wap_notebooks.CellIds | None = None
    include_outputs: wap_notebooks.IncludeOutputs = True

    def engine(self, place: Place) -> Operation:
        return ReadNotebook(
            path=wap_notebooks.named(place.path(self.path)),
            within=place.within,
            cells=None if self.cell_ids is None else tuple(self.cell_ids),
            outputs=self.include_outputs,
        )


class EditNotebookParameters(Placed):
    path: Path
    edits: wap_notebooks.CellEdits
    expected_hash: Hash | None = None
    confirmed: Confirmed = False

    def engine(self, place: Place) -> Operation:
        return small(
            ModifyFile(
                path=wap_notebooks.named(place.path(self.path)),
                within=place.within,
                changes=tuple(edit.change() for edit in self.edits),
                expected_hash=self.expected_hash,
                confirmed=self.confirmed,
            )
        )


class NotebookRead(Model):
    path: str
    hash: str
    language: str | None = None
    cells: list[NotebookCell]
    count: int
    truncated: bool | None = Field(None)
    """There are more, which did not fit; name those that are wanted."""
    total: int


def read(operation: ReadNotebook, result: NotebookContent) -> NotebookRead:
    return NotebookRead(
        path=shown(operation.path, operation.within),
        hash=result.hash,
        language=result.language,
        cells=result.cells,
        count=len(result.cells),
        truncated=result.is_truncated or None,
        total=result.total_cells,
    )
