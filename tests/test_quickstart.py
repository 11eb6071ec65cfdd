"""The quickstart works, in a kernel that is told where the server is and in one that has to find it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from scripts.demo import QUICKSTART, Server, run_notebook, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(QUICKSTART, as_version=4)


def test_outputs_are_those_in_the_repository(server: Server, notebook: nbformat.NotebookNode) -> None:
    stored = _outputs(notebook)
    run_notebook(notebook, server)
    assert _outputs(notebook) == stored, "run scripts/demo.py --save"
    assert list(server.workspace.iterdir()) == []


def test_a_kernel_finds_the_server_that_started_it(server: Server, notebook: nbformat.NotebookNode) -> None:
    """As in `make run`, where the environment names no server but Jupyter names the kernel's parent."""
    code = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=server.workspace,
        env={**server.environment, "JPY_PARENT_PID": str(server.pid)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [output["text"] for outputs in _outputs(notebook) for output in outputs if "text" in output]
    assert done.stdout == "".join(printed)


def _outputs(notebook: nbformat.NotebookNode) -> list[list[dict[str, Any]]]:
    """What each code cell answered, without the numbers that count executions."""
    return [
        [{key: value for key, value in output.items() if key != "execution_count"} for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
