"""Run the commands of the README as they stand there, against a real server and in a real kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from scripts.demo import Server, run_notebook, running_server

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "README.md").read_text()
ADDRESS = "http://localhost:8888"
"""The address in the README; the test's server listens on another port."""


def block(heading: str, first: str) -> str:
    """Return the first block of code below `heading` that begins with `first`."""
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    (found,) = [text for text in section if text.startswith(f"{heading}\n")]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", found, flags=re.MULTILINE)
    lines = [re.sub(r"^    ", "", text.strip("\n"), flags=re.MULTILINE).removeprefix("    ") for text in blocks]
    parts = [part for text in lines for part in re.split(r"\n\n(?=\S)", text)]
    return next(part for part in parts if part.startswith(first))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        (running.workspace / "src").mkdir()
        (running.workspace / "src" / "a.py").write_text("# TODO: write it\n")
        (running.workspace / "app.py").write_text("x = 1\n")
        (running.workspace / "test_app.py").write_text("def test_app():\n    import app\n    assert app.x\n")
        # Schemathesis is a plugin of the tests' own environment, and takes seconds to import.
        (running.workspace / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis\n")
        (running.workspace / "data").mkdir()
        (running.workspace / "data" / "rows.csv").write_text("1\n")
        yield running


def run(server: Server, script: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**server.environment, "PATH": path}
    done = subprocess.run(
        ["bash", "-euc", script.replace(ADDRESS, server.url.rstrip("/"))],
        env=environment,
        cwd=server.workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_doctor_finds_nothing_wrong_that_keeps_wap_from_working(server: Server) -> None:
    command = next(line for line in block("Install", "pip install").splitlines() if line.startswith("wap doctor"))
    assert "bubblewrap" in run(server, command)


def test_an_agent_searches_with_a_token_of_its_own(server: Server) -> None:
    token = block("Connect an agent", "TOKEN=")
    found = json.loads(run(server, f"{token}\n{block('Connect an agent', 'curl -H').replace('curl', 'curl -s', 1)}"))
    assert [match["path"] for match in found["matches"]] == ["src/a.py"]


def test_a_batch_of_an_agent_waits_where_policy_asks(server: Server) -> None:
    token = block("Connect an agent", "TOKEN=").replace("helper", "another")
    section = TEXT.split("## Connect an agent")[1].split("## ")[0]
    batch = re.search(r"    curl -H [^\n]*/wap/runs .*?\}\]\}'", section, flags=re.DOTALL)
    assert batch is not None
    told = json.loads(run(server, f"{token}\n{batch[0].strip().replace('curl', 'curl -s', 1)}"))
    assert told["status"] == "awaiting_approval"
    assert [event["type"] for event in told["events"]] == ["createFile", "shell", "approvalRequired"]
    assert told["events"][1]["stdout"] == "42\n"


def test_a_notebook_searches_runs_and_edits(server: Server) -> None:
    lines = block("Use it in a notebook", "%load_ext")
    batch = block("Use it in a notebook", "%%wap")
    notebook = nbformat.v4.new_notebook()
    for source in (*lines.splitlines(), "value = 42", batch):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    run_notebook(notebook, server)
    said = [
        "".join(output.get("text", "") + str(output.get("data", {}).get("text/plain", "")) for output in cell.outputs)
        for cell in notebook.cells
    ]
    assert "src/a.py" in said[1] and "1 passed" in said[2]
    assert "completed" in said[4] and (server.workspace / "app.py").read_text() == "x = 42\n"


def test_every_make_command_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"^ +make ([a-z-]+)", TEXT, flags=re.MULTILINE))
    assert {"run", "demo", "test", "test-quick", "test-all"} <= named <= targets


def test_every_link_leads_to_a_file() -> None:
    for document in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")), PROJECT / "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
