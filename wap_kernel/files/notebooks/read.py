"""Read a notebook cell by cell: ids, sources, and outputs as text."""

from __future__ import annotations

import re
from typing import Any

from wap_kernel.files.content_hash import hash_bytes
from wap_kernel.files.interface import Files
from wap_kernel.files.notebooks.cells import Cell, NotebookDocument, get_source, join_lines
from wap_kernel.files.read import build_metadata, read_up_to
from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.limits import MAX_CELL_OUTPUT_CHARACTERS, MAX_CELL_OUTPUTS, MAX_NOTEBOOK_BYTES
from wap_kernel.model.operations import ReadNotebook
from wap_kernel.model.results import CellOutput, Limits, NotebookCell, NotebookContent

MAX_TYPES = 20
MAX_TYPE = 100
OVERHEAD = 100
"""Bytes of a cell or an output in a result besides its texts."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read_notebook(files: Files, operation: ReadNotebook, limits: Limits, root_path: str) -> NotebookContent:
    """Return the requested cells, as many as fit into a result."""
    with files.open(operation.path) as file:
        data, stat = read_up_to(file, MAX_NOTEBOOK_BYTES), file.stat
    document = NotebookDocument(data)
    selected = _select_cells(document, operation.cells)
    cells: list[NotebookCell] = []
    left = limits.max_file_size
    for name, cell in selected:
        built = _build_cell(name, cell, MAX_CELL_OUTPUTS if operation.outputs else None)
        if not cells and _measure(built) > left:  # the first cell comes at least without its outputs
            built = _build_cell(name, cell, 0)
        left -= _measure(built)
        if left < 0:
            break
        cells.append(built)
    if selected and not cells:
        raise TooLarge(
            f"The cell has more than the limit of {limits.max_file_size} bytes: {selected[0][0]}",
            hint="Show a part of the notebook with a command, such as jq.",
            maxFileSize=limits.max_file_size,
        )
    return NotebookContent(
        cells=cells,
        total_cells=len(document.cells),
        is_truncated=len(cells) < len(selected),
        language=None if document.language is None else _replace_surrogates(document.language)[:MAX_TYPE],
        metadata=build_metadata(stat, root_path),
        hash=hash_bytes(data),
    )


def _measure(cell: NotebookCell) -> int:
    outputs = cell.outputs or []
    texts = [
        cell.source,
        *(output.text for output in outputs),
        *(name for one in outputs for name in one.mime_types or ()),
    ]
    return sum(map(len, texts)) + OVERHEAD * (1 + len(outputs))


def _select_cells(document: NotebookDocument, names: tuple[str, ...] | None) -> list[tuple[str, Cell]]:
    known = dict(zip(document.names, document.cells, strict=True))
    if names is None:
        return list(known.items())
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidArgument(
            f"The notebook has no cell: {missing[0]}", hint="Read the whole notebook to see which there are."
        )
    return [(name, known[name]) for name in dict.fromkeys(names)]


def _build_cell(name: str, cell: Cell, most: int | None) -> NotebookCell:
    """Return the cell with at most `most` outputs; None means that the caller wants no outputs."""
    count = cell.get("execution_count")
    found = cell.get("outputs")
    all_outputs = [output for output in found if isinstance(output, dict)] if isinstance(found, list) else []
    if most is None or cell["cell_type"] != "code":
        outputs, omitted = None, 0
    else:
        outputs, omitted = [_build_output(output) for output in all_outputs[:most]], len(all_outputs[most:])
    return NotebookCell(
        id=name,
        type=_replace_surrogates(str(cell["cell_type"]))[:MAX_TYPE],
        source=_replace_surrogates(get_source(cell)),
        execution_count=count if type(count) is int else None,
        outputs=outputs,
        outputs_left_out=omitted or None,
    )


def _build_output(output: dict[str, Any]) -> CellOutput:
    kind = str(output.get("output_type"))
    data = output.get("data")
    bundle = data if isinstance(data, dict) else {}
    if kind == "stream":
        text = join_lines(output.get("text"))
    elif kind == "error":
        traceback = output.get("traceback")
        lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
        text = "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
    else:
        text = join_lines(bundle.get("text/plain"))
    text = _replace_surrogates(_COLOURS.sub("", text))
    others = sorted(_replace_surrogates(mime)[:MAX_TYPE] for mime in bundle if mime != "text/plain")
    return CellOutput(
        type=_replace_surrogates(kind)[:MAX_TYPE],
        text=_truncate(text),
        mime_types=others[:MAX_TYPES] or None,
        is_truncated=True if len(text) > MAX_CELL_OUTPUT_CHARACTERS else None,
    )


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON may hold and a result cannot, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _truncate(text: str) -> str:
    if len(text) <= MAX_CELL_OUTPUT_CHARACTERS:
        return text
    half = MAX_CELL_OUTPUT_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
