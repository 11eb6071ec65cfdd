"""Displays, effects and values of cells with `%wap`."""

from __future__ import annotations

import json

import nbformat
import pytest

from scripts.demo import Server, run_notebook
from tests.support.python_kernels import ASKS, NOTEBOOK, Kernel, ask
from wap_kernel.model.caller import name_os_user

# -- looking


def test_it_finds_the_server_that_started_it(kernel: Kernel, server: Server) -> None:
    cell = kernel.run("%wap")
    assert cell.kinds == ["execute_result"]
    assert server.url.rstrip("/") in cell.text
    assert str(server.workspace) in cell.text
    assert "standard" in cell.text
    assert kernel.value("_.data['endpoint']['kind']") == "server"


def test_what_only_looks_is_the_value_of_the_cell(kernel: Kernel) -> None:
    cell = kernel.run("%wap read src/app.py 2:3")
    assert cell.kinds == ["execute_result"]
    assert "y = 2" in cell.text and "x = 1" not in cell.text
    assert "text/html" in cell.outputs[0]["data"]
    assert kernel.value("_.text") == "y = 2\nz = 3\n"
    assert kernel.run("found = %wap ls src").outputs == []
    assert kernel.value("list(found)") == ["src/app.py"]
    assert kernel.run("%wap search --to hits -q 'y = 2'").outputs == []
    assert kernel.value("hits.paths") == ["src/app.py"]


@pytest.mark.parametrize(
    "line", ["ls -r", "search x src -i", "runs", "audit -n 5", "policy", "grants", "check sh ls", "help", "sh --help"]
)
def test_every_look_shows_itself(kernel: Kernel, line: str) -> None:
    cell = kernel.run(f"%wap {line}")
    assert (cell.status, cell.kinds) == ("ok", ["execute_result"]), cell.text


def test_nothing_in_a_line_is_python(kernel: Kernel) -> None:
    kernel.run("name = 'expanded'")
    assert kernel.run("%wap sh -q echo '{name}' $name").outputs == []
    assert kernel.value("_.stdout") == "{name}\n"


# -- doing


def test_a_run_is_shown_once_and_is_the_value(kernel: Kernel, server: Server) -> None:
    cell = kernel.run("%wap write made.txt hello")
    assert cell.kinds == ["display_data"]
    assert "made.txt" in cell.text
    assert (server.workspace / "made.txt").read_text() == "hello"
    assert kernel.value("_.files") == ["made.txt"]
    again = kernel.run("_")
    assert again.kinds == ["execute_result"], "shown again when it is asked for again"
    kernel.run("%wap revert last -q")
    assert not (server.workspace / "made.txt").exists()


def test_a_fresh_session_reverts_the_last_call_of_another_client(server: Server) -> None:
    ask(server, "wap/api/writeFile", {"path": "theirs.txt", "content": "new"})
    assert (server.workspace / "theirs.txt").read_text() == "new"
    sources = ["%load_ext wap_kernel", "%wap revert last"]
    run_notebook(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]), server)
    assert not (server.workspace / "theirs.txt").exists()


def test_a_long_run_is_followed_and_saved_once(kernel: Kernel, server: Server) -> None:
    gate = server.workspace / "gate"
    gate.write_text("")  # a layer shows the content of files that exist
    begun = kernel.start("%wap sh echo first words; until [ -s gate ]; do sleep 0.01; done; cat gate; echo the end")
    kernel.until(begun, "| first words")
    assert "completed" not in begun[1].text
    gate.write_text("opened\n")
    cell = kernel.finish(begun)
    assert cell.kinds == ["display_data"]
    assert "| opened" in cell.text and "| the end" in cell.text and "completed" in cell.text
    assert cell.updates >= 1


def test_much_output_is_drawn_now_and_then(kernel: Kernel) -> None:
    cell = kernel.run("%wap sh seq 300000")
    seconds = kernel.value("_.events[-1]['durationMs']") / 1000
    assert cell.kinds == ["display_data"]
    assert cell.updates <= 8 * (seconds + 5)
    assert len(json.dumps(cell.outputs[0]["data"])) < 100_000


def test_a_notebook_is_saved_with_each_card_once(server: Server) -> None:
    sources = ["%load_ext wap_kernel", "%wap sh echo begun; sleep 0.5; echo ended", "%wap read src/app.py", "%%wap\n[]"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    run_notebook(notebook, server)
    kinds = [[output.output_type for output in cell.outputs] for cell in notebook.cells]
    assert kinds == [[], ["display_data"], ["execute_result"], ["display_data"]]
    assert "completed" in notebook.cells[1].outputs[0].data["text/plain"]
    assert "ended" in notebook.cells[1].outputs[0].data["text/html"]


def test_every_run_of_a_cell_is_shown(kernel: Kernel) -> None:
    cell = kernel.run("%wap sh echo one\n%wap read missing.txt\nkept = %wap sh echo two\nprint('three')")
    assert cell.kinds == ["display_data", "display_data", "display_data", "stream"]
    assert cell.status == "ok"


def test_a_batch_with_variables(kernel: Kernel, server: Server) -> None:
    kernel.run("text = 'from python'; names = ['a', 'b']")
    cell = kernel.run('%%wap --to done\n- type: createFile\n  path: v.txt\n  content: "{{text}}: {{names}}"\n')
    assert cell.kinds == ["display_data"]
    assert (server.workspace / "v.txt").read_text() == "from python: ['a', 'b']"
    assert kernel.value("done.ok and done is _")
    kernel.run('%%wap --no-vars -q\n[{"type": "createFile", "path": "w.txt", "content": "{{text}}"}]')
    assert (server.workspace / "w.txt").read_text() == "{{text}}"


def test_the_text_of_a_cell(kernel: Kernel, server: Server) -> None:
    kernel.run("%%wap write -q t.txt\n# {{name}}\n\tone\n")
    assert (server.workspace / "t.txt").read_text() == "# {{name}}\n\tone\n"
    assert "two\n" in kernel.run("%%wap sh\ncd src\nls\necho two").text + "\n"


def test_dry_runs_and_atomic_ones(kernel: Kernel, server: Server) -> None:
    batch = "- {type: createFile, path: d.txt, content: x}\n- {type: readFile, path: nothing}\n"
    assert "d.txt" in kernel.run(f"%%wap --dry-run\n{batch}").text
    assert not (server.workspace / "d.txt").exists()
    kernel.run(f"%%wap --atomic\n{batch}")
    assert kernel.value("_.status") == "error"
    assert not (server.workspace / "d.txt").exists()


def test_quiet_shows_what_went_wrong_only(kernel: Kernel) -> None:
    assert kernel.run("%wap sh -q echo fine").outputs == []
    assert kernel.value("_.stdout") == "fine\n"
    assert kernel.run("%wap read -q src/app.py 1:1").outputs == []
    assert kernel.run("%wap sh -q \\\n  echo fine\n").outputs == []
    assert "exit 3" in kernel.run("%wap sh -q exit 3").text
    assert "missing.txt" in kernel.run("%wap read -q missing.txt").text


def test_what_was_quiet_is_shown_to_whoever_asks_for_it(kernel: Kernel) -> None:
    for line, words in (("read src/app.py 1:1", "x = 1"), ("sh echo loud", "| loud")):
        for asked in ("found", "display(found)"):
            cell = kernel.run(f"%wap {line.replace(' ', ' -q --to found ', 1)}\n{asked}")
            assert len(cell.outputs) == 1 and words in cell.text, cell.text
    assert len(kernel.run("%wap sh --to found echo once\nfound").outputs) == 1, "what stands there is not shown again"


# -- what goes wrong


def test_a_failure_is_shown_without_a_traceback(kernel: Kernel) -> None:
    for line in ("sh exit 3", "read missing.txt", "read .env", "frobnicate", "revert run_0000000000000000"):
        cell = kernel.run(f"%wap {line}")
        assert (cell.status, cell.kinds) == ("ok", ["display_data"]), cell.text
        assert "Traceback" not in cell.text
    assert kernel.value("_.data['code']") == "NOT_FOUND"


def test_a_mistake_in_a_batch_names_its_line(kernel: Kernel) -> None:
    cell = kernel.run("%%wap\n- type: message\n  content: x\n- type: shell\n")
    assert "line 4: operations[1].command: This field is required." in cell.text
    assert kernel.value("_.data['line']") == 4


@pytest.mark.parametrize(
    "code",
    [
        "%wap sh --raise exit 3",
        "%wap read --raise missing.txt",
        "%%wap --raise\n- type: nothing",
        "%%wap --raise\n- {type: deleteFile, path: missing.txt}",
        f"%wap sh --raise {ASKS}",
    ],
)
def test_raise_stops_run_all(kernel: Kernel, code: str) -> None:
    cell = kernel.run(code)
    assert cell.status == "error"
    assert cell.outputs[-1]["type"] == "error"
    assert "Traceback" not in cell.text and "wap_kernel" not in cell.text
    assert len(cell.outputs[-1]["traceback"]) == 1


def test_what_is_raised_is_cut(kernel: Kernel) -> None:
    kernel.run("long = 'x' * 4_000")
    cell = kernel.run('%%wap --raise -q\n- {type: shell, command: "false # {{long}}"}\n')
    failure = cell.outputs[-1]
    assert failure["ename"] == "ExecutionFailed"
    assert "more characters" in failure["evalue"] and len(failure["evalue"]) < 1_000
    assert "more characters" in failure["traceback"][0] and len(failure["traceback"][0]) < 2_000
    assert "%wap show run_" in failure["traceback"][0]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("write ../x.txt 'say --raise now'", "ok"),
        ("write ../x.txt 'say --raise now' --raise", "error"),
        ("frobnicate 'say --raise now'", "ok"),
        ("frobnicate --raise", "error"),
        ("frobnicate --raise 'never closed", "error"),
    ],
)
def test_a_text_that_speaks_of_raising_does_not_raise(kernel: Kernel, line: str, status: str) -> None:
    assert kernel.run(f"%wap {line}").status == status


def test_what_was_raised_can_be_caught(kernel: Kernel) -> None:
    kernel.run("from wap_kernel.model.errors import WapError")
    assert kernel.run("try:\n    %wap read --raise nothing\nexcept WapError as e:\n    c = e").status == "ok"
    assert kernel.value("c.code.value") == "FILE_NOT_FOUND"


# -- completion


def test_completion_in_the_kernel(kernel: Kernel) -> None:
    kernel.be_patient()
    assert kernel.complete("%wap rea") == (["read"], "rea")
    assert kernel.complete("%wap read --li") == (["--lines"], "--li")
    assert kernel.complete("%wap read src/a") == (["src/app.py"], "src/a")
    assert kernel.complete("%wap read 'my") == (["'my notes.txt'"], "'my")
    assert kernel.complete("x = %wap read src/a") == (["src/app.py"], "src/a")
    assert kernel.complete("%%wap --dry") == (["--dry-run"], "--dry")
    kernel.run("%wap sh -q --to run true")
    run_id = kernel.value("run.run_id")
    assert run_id in kernel.complete("%wap show run_")[0]


def test_the_text_of_a_cell_completes_as_a_batch_or_not_at_all(kernel: Kernel) -> None:
    kernel.be_patient()
    assert kernel.complete("%%wap\n- type: rea") == (["readFile"], "rea")
    assert kernel.complete('%%wap check\n[{"type": "edi') == (["editFile"], "edi")
    assert kernel.complete("%%wap\n- type: message\n  content: prin") == (["prin"], "prin")
    assert kernel.complete("%%wap sh\nprin") == (["prin"], "prin")
    assert kernel.complete("%%wap write a.py\ntype: rea") == (["rea"], "rea")
    assert kernel.complete("%%wap frobnicate\n- type: rea") == (["rea"], "rea")


def test_what_has_no_completion_gets_none_of_pythons(kernel: Kernel) -> None:
    kernel.be_patient()
    assert kernel.complete("%wap read prin") == (["prin"], "prin")
    assert kernel.complete("%wap read src/app.py ") == ([""], "")
    assert kernel.complete("%wapp")[0] == []
    assert "print" in kernel.complete("prin")[0]


def test_the_audit_names_the_kernel_and_the_notebook_of_a_cell(kernel: Kernel, kernel_id: str, server: Server) -> None:
    kernel.run("%wap sh true")
    run_id = kernel.value("_.run_id")
    records = [record for record in ask(server, "wap/audit")["records"] if record.get("runId") == run_id]
    said = {(record["user"], record["session"], record["notebook"]) for record in records}
    assert said == {(name_os_user(), kernel_id, NOTEBOOK)}
