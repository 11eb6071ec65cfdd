"""readNotebook and editNotebook: WAP's tools for cells, with this dialect's paths and spelling."""

from __future__ import annotations

from pydantic import Field

from wap_kernel.dialects.coding_environment.parameters import Confirmed, Path, RootedParameters, check_size
from wap_kernel.dialects.coding_environment.workspace_root import RootFolder, render_relative
from wap_kernel.dialects.wap import notebook_parameters
from wap_kernel.dialects.wap.parameters import Hash
from wap_kernel.model.base import Model
from wap_kernel.model.operations import ModifyFile, Operation, ReadNotebook
from wap_kernel.model.results import NotebookCell, NotebookContent


class ReadNotebookParameters(RootedParameters):
    path: Path
    cell_ids: notebook_parameters.CellIds | None = None
    include_outputs: notebook_parameters.IncludeOutputs = True

    def build_operation(self, root: RootFolder) -> Operation:
        return ReadNotebook(
            path=notebook_parameters.check_notebook_path(root.resolve(self.path)),
            within=root.within,
            cells=None if self.cell_ids is None else tuple(self.cell_ids),
            outputs=self.include_outputs,
        )


class EditNotebookParameters(RootedParameters):
    path: Path
    edits: notebook_parameters.CellEdits
    expected_hash: Hash | None = None
    confirmed: Confirmed = False

    def build_operation(self, root: RootFolder) -> Operation:
        return check_size(
            ModifyFile(
                path=notebook_parameters.check_notebook_path(root.resolve(self.path)),
                within=root.within,
                edits=tuple(edit.change() for edit in self.edits),
                expected_hash=self.expected_hash,
                confirmed=self.confirmed,
            )
        )


class NotebookAnswer(Model):
    path: str
    hash: str
    language: str | None = None
    cells: list[NotebookCell]
    count: int
    truncated: bool | None = Field(None)
    """True when more cells did not fit; request them by their ids."""
    total: int


def render_notebook(operation: ReadNotebook, result: NotebookContent) -> NotebookAnswer:
    return NotebookAnswer(
        path=render_relative(operation.path, operation.within),
        hash=result.hash,
        language=result.language,
        cells=result.cells,
        count=len(result.cells),
        truncated=result.is_truncated or None,
        total=result.total_cells,
    )
