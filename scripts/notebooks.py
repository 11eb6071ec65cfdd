"""Run notebooks against a real server and store what they answer in them.

    python scripts/notebooks.py [quickstart] [agent] [classroom]

Each has a server, a token and an empty workspace of its own. No path or address of this machine is stored.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.demo import Server, run_notebook, running_server

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NAMES = ("quickstart", "agent", "classroom")
HOME, ADDRESS, PERSON = "/home/ada/project", "http://localhost:8888/", "ada"
"""The names of the workspace, of the server and of its user in a stored notebook."""

_VARYING = (
    (re.compile(r"\b(run|apr|tok|grant)_[0-9a-f]+"), r"\1_ID"),
    (re.compile(r"\bsha256:[0-9a-f]{64}"), "HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?(\.\d+)?Z?\b"), "TIME"),
    (re.compile(r"\bTIME [A-Z]{2,5}\b"), "TIME"),  # the zone is the reader's
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "DURATION"),
    (re.compile(r"\b\d+ (min|seconds?) left\b"), "DURATION left"),
    (re.compile(r" {2,}"), "  "),  # columns are as wide as what stands in them
)


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.ipynb"


def executed(path: Path, server: Server) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    run_notebook(notebook, server)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_neutral(output, server) for output in cell.outputs]
    return notebook


def _neutral(output: nbformat.NotebookNode, server: Server) -> nbformat.NotebookNode:
    told = json.dumps(output).replace(str(server.workspace), HOME).replace(server.url, ADDRESS)
    neutral: nbformat.NotebookNode = nbformat.from_dict(json.loads(told))
    return neutral


def answers(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the output of each code cell as text, without what differs from run to run."""
    return ["\n".join(_text(output) for output in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        text = str(output.text)
    elif output.output_type == "error":
        text = "\n".join(output.traceback)
    else:
        text = str(output.data["text/plain"])
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", nargs="*", help=f"{', '.join(NAMES)}; all of them by default")
    names = parser.parse_args().name or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no notebook {unknown[0]!r}")
    for name in names:
        with running_server(person=PERSON) as server:
            notebook = executed(path_of(name), server)
        nbformat.write(notebook, path_of(name))
        print(f"{name}: {len(notebook.cells)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
