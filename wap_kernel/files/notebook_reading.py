"""A notebook cell by cell: ids, sources, and of the outputs what can be read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wap_kernel.errors import InvalidArgument
from wap_kernel.files.cells import MAX_NOTEBOOK, Cell, Document, joined, source_of
from wap_kernel.files.digest import of_bytes
from wap_kernel.files.primitives import Files
from wap_kernel.files.reading import metadata, read_up_to
from wap_kernel.operations import ReadNotebook
from wap_kernel.results import CellOutput, Limits, NotebookCell, NotebookContent

MAX_OUTPUT = 4000
"""Characters of one output; its end is kept as well as its beginning."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read_notebook(files: Files, operation: ReadNotebook, limits: Limits, root_path: str) -> NotebookContent:
    """The cells that are asked for, as many as fit into an answer."""
    with files.open(operation.path) as file:
        data, stat = read_up_to(file, MAX_NOTEBOOK), file.stat
    document = Document(data)
    wanted = _wanted(document, operation.cells)
    cells: list[NotebookCell] = []
    left = limits.max_file_size
    for name, cell in wanted:
        shown = _shown(name, cell, outputs=operation.outputs)
        left -= len(shown.source) + sum(len(output.text) for output in shown.outputs or ())
        if left < 0 and cells:
            break
        cells.append(shown)
    return NotebookContent(
        cells=cells,
        total_cells=len(document.cells),
        is_truncated=len(cells) < len(wanted),
        language=document.language,
        metadata=metadata(stat, root_path),
        hash=of_bytes(data),
    )


def _wanted(document: Document, names: tuple[str, ...] | None) -> list[tuple[str, Cell]]:
    known = dict(zip(document.names, document.cells, strict=True))
    if names is None:
        return list(known.items())
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidArgument(
            f"The notebook has no cell: {missing[0]}", hint="Read the whole notebook to see which there are."
        )
    return [(name, known[name]) for name in names]


def _shown(name: str, cell: Cell, *, outputs: bool) -> NotebookCell:
    count = cell.get("execution_count")
    found = cell.get("outputs")
    return NotebookCell(
        id=name,
        type=str(cell["cell_type"]),
        source=source_of(cell),
        execution_count=count if isinstance(count, int) else None,
        outputs=list(_outputs(found)) if outputs and isinstance(found, list) else None,
    )


def _outputs(found: list[Any]) -> Iterator[CellOutput]:
    for output in found:
        if not isinstance(output, dict):
            continue
        kind = str(output.get("output_type"))
        data = output.get("data")
        bundle = data if isinstance(data, dict) else {}
        if kind == "stream":
            text = joined(output.get("text"))
        elif kind == "error":
            traceback = output.get("traceback")
            lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
            text = "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
        else:
            text = joined(bundle.get("text/plain"))
        text = _COLOURS.sub("", text)
        others = sorted(mime for mime in bundle if mime != "text/plain")
        yield CellOutput(
            type=kind,
            text=_cut(text),
            mime_types=others or None,
            is_truncated=True if len(text) > MAX_OUTPUT else None,
        )


def _cut(text: str) -> str:
    if len(text) <= MAX_OUTPUT:
        return text
    half = MAX_OUTPUT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
