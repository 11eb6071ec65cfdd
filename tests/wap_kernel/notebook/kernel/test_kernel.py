"""The `wap` kernel with the engine of its own: what a cell shows, how it is interrupted, and that no Python gets in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.support.wap_kernels import SECONDS, Talk, running_kernel
from wap_kernel.client.render import MAX_ERROR_BYTES
from wap_kernel.model.errors import NotFound
from wap_kernel.model.limits import MAX_CELL_BYTES
from wap_kernel.notebook.kernel import inspection
from wap_kernel.notebook.language.lookup import Lookup

MARKED = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "notes.txt").write_text("first\nsecond\n")
    (folder / ".env").write_text("SECRET=1\n")
    return folder


@pytest.fixture(scope="module")
def kernel(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Talk, KernelManager]]:
    with running_kernel(workspace, tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@pytest.fixture
def talk(kernel: tuple[Talk, KernelManager]) -> Talk:
    return kernel[0]


# -- what a cell shows


def test_every_line_answers_and_the_last_is_the_result(talk: Talk) -> None:
    said = talk.run("# two lines\nread notes.txt\n\nls")
    assert said.reply["status"] == "ok"
    assert said.kinds == ["display_data", "execute_result"]
    assert "second" in said.texts[0]
    assert "notes.txt" in said.texts[1]


def test_a_run_is_shown_once_and_says_how_to_undo_it_in_this_kernel(talk: Talk, workspace: Path) -> None:
    said = talk.run("write made.txt\none\ntwo")
    assert (workspace / "made.txt").read_text() == "one\ntwo\n"
    assert set(said.kinds) <= {"display_data", "update_display_data"}
    assert len(said.texts) == 1
    assert "revert run_" in said.text
    assert "%wap" not in str(said.messages)


def test_a_run_is_drawn_while_it_goes_and_again_in_its_place(talk: Talk, workspace: Path) -> None:
    (workspace / "gate").write_text("")  # a layer shows the content of files that exist
    request = talk.begin("sh seq 3; until [ -s gate ]; do sleep 0.01; done; cat gate; echo end")
    published = talk.published(request)
    kind, first = next(published)
    (workspace / "gate").write_text("opened\n")
    rest = list(published)
    assert talk.reply(request)["status"] == "ok"
    assert (kind, rest[-1][0]) == ("display_data", "update_display_data")
    assert "running" in first["data"]["text/plain"]
    last = rest[-1][1]["data"]["text/plain"]
    assert "completed" in last
    assert "opened" in last and "end" in last


def test_a_batch_is_a_cell(talk: Talk, workspace: Path) -> None:
    said = talk.run('[{"type": "createFile", "path": "braces.txt", "content": "{{left}} as they are"}]')
    assert said.reply["status"] == "ok"
    assert (workspace / "braces.txt").read_text() == "{{left}} as they are"
    said = talk.run("- type: shell\n  command: echo hello\n- type: readFile\n  path: notes.txt\n")
    assert "hello" in said.text
    assert "second" in said.text


def test_who_is_used_to_the_magics_may_write_them(talk: Talk, workspace: Path) -> None:
    assert "second" in talk.run("%wap read notes.txt").text
    assert talk.run("%%wap write -q magic.txt\r\none\r\ntwo\r\n").reply["status"] == "ok"
    assert (workspace / "magic.txt").read_bytes() == b"one\ntwo\n"
    assert talk.complete("%wap rea") == ["read"]
    assert talk.complete("%wap read mag", 13) == ["magic.txt"]


def test_quiet_shows_nothing_that_went_well(talk: Talk) -> None:
    assert talk.run("sh -q echo fine").messages == []
    assert "false" in talk.run("sh -q false").text


@pytest.mark.parametrize(
    ("cell", "code", "words"),
    [
        ("read missing.txt", "FILE_NOT_FOUND", "missing.txt"),
        ("read .env", "PERMISSION_DENIED", "denied by policy"),
        ("raed notes.txt", "INVALID_ARGUMENT", "did you mean read?"),
        ("cat notes.txt", "INVALID_ARGUMENT", "Write: read notes.txt"),
        ("write", "INVALID_ARGUMENT", "PATH"),
        ("- type: readFile\n- type: noSuch\n", "INVALID_ARGUMENT", "line 2"),
        ("--atomic", "INVALID_ARGUMENT", "a cell that begins with --atomic"),
        ("rm -rf src", "INVALID_ARGUMENT", "Write it as a command: sh rm -rf src"),
    ],
)
def test_an_error_is_text_without_a_traceback(talk: Talk, cell: str, code: str, words: str) -> None:
    said = talk.run(cell)
    assert (said.reply["status"], said.reply["ename"]) == ("error", code)
    assert said.kinds == ["error"]
    shown = "\n".join(said.messages[0][1]["traceback"])
    assert words in shown
    assert "Traceback" not in shown
    assert "%wap" not in shown


def test_in_a_cell_of_several_lines_an_error_says_which(talk: Talk) -> None:
    for cell, place in (("ls\n\nread missing.txt", "line 3 · FILE_NOT_FOUND"), ("ls\nsh --raise false", "line 2 · ")):
        assert place in talk.run(cell).messages[-1][1]["traceback"][0]
    assert "line" not in talk.run("read missing.txt").messages[-1][1]["traceback"][0].split("\n")[0]


def test_lines_after_an_error_are_not_done_and_none_is_if_one_cannot_be_read(talk: Talk, workspace: Path) -> None:
    talk.run("read missing.txt\nwrite never.txt no")
    talk.run("write never.txt no\nraed notes.txt")
    assert not (workspace / "never.txt").exists()


def test_a_failed_run_is_no_error_unless_it_is_to_raise(talk: Talk) -> None:
    assert talk.run("sh false").reply["status"] == "ok"
    said = talk.run("sh --raise false\nls")
    assert said.reply["ename"] == "EXECUTION_FAILED"
    assert said.kinds[-1] == "error"
    assert "execute_result" not in said.kinds


def test_an_error_is_cut(talk: Talk) -> None:
    said = talk.run("x" * 200_000)
    assert said.kinds == ["error"]
    failure = said.messages[0][1]
    assert len(json.dumps(failure)) < MAX_ERROR_BYTES
    assert "more characters" in failure["evalue"]
    raised = talk.run("sh --raise false " + "x" * 50_000)
    assert len(json.dumps([content for _, content in raised.messages])) < MAX_CELL_BYTES
    assert len(json.dumps(raised.messages[-1][1])) < MAX_ERROR_BYTES


def test_what_a_denied_command_says(talk: Talk) -> None:
    said = talk.run("sh curl http://localhost")
    assert said.reply["status"] == "ok"
    assert "denied" in said.text
    assert "curl" in said.text


def test_an_approval_and_an_undo(talk: Talk, workspace: Path) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / "a.csv").write_text("1,2\n")
    asked = talk.run("sh rm -r data").text
    assert "approve run_" in asked and "deletes 1 file and 1 folder" in asked
    assert (workspace / "data" / "a.csv").exists()
    assert "completed" in talk.run("approve").text
    assert not (workspace / "data").exists()
    talk.run("revert last")
    assert (workspace / "data" / "a.csv").read_text() == "1,2\n"


def test_a_shared_command_and_its_completion(talk: Talk, workspace: Path) -> None:
    assert talk.complete("sh --sh") == ["--shared"]
    said = talk.run("sh --shared echo x > direct.txt")
    assert "A revert does not undo it." in said.text
    assert (workspace / "direct.txt").read_text() == "x\n"
    assert "there is no option --shred; did you mean --shared?" in str(talk.run("sh --shred ls").messages)


def test_names_and_outputs_are_inert(talk: Talk, workspace: Path) -> None:
    (workspace / "a\x1b]52;c;x\x07<script>").write_text("x")
    said = talk.run("ls\nsh printf '\\033]8;;http://x\\033\\\\<script>alert(1)</script>'")
    for kind, content in said.messages:
        assert kind != "error"
        assert "\x1b" not in json.dumps(content, ensure_ascii=False)
        assert "<script>" not in content["data"]["text/html"]
    failed = talk.run("read 'no\x1b[2Jsuch'")
    assert "\x1b" not in json.dumps(failed.reply, ensure_ascii=False)


# -- silence, numbers, history, expressions


def test_silent_publishes_nothing_and_is_not_remembered(talk: Talk) -> None:
    number = talk.run("ls").reply["execution_count"]
    said = talk.run("read missing.txt", silent=True)
    assert said.messages == []
    assert said.reply["status"] == "error"
    assert talk.run("ls").reply["execution_count"] == number + 1


def test_what_is_not_to_be_remembered_has_no_number_of_its_own(talk: Talk) -> None:
    number = talk.run("ls").reply["execution_count"]
    talk.run("read notes.txt 1", store_history=False)
    assert talk.run("ls").reply["execution_count"] == number + 1
    history = talk.reply(talk.client.history(hist_access_type="tail", n=2, output=False))["history"]
    assert [entry[2] for entry in history] == ["ls", "ls"]


def test_history_has_outputs(talk: Talk) -> None:
    talk.run("read notes.txt")
    history = talk.reply(talk.client.history(hist_access_type="tail", n=1, output=True))["history"]
    assert history[0][2][0] == "read notes.txt"
    assert "second" in history[0][2][1]


def test_expressions_are_not_evaluated(talk: Talk) -> None:
    answered = talk.run("ls", user_expressions={"x": "1 + 1"}).reply["user_expressions"]
    assert answered["x"]["status"] == "error"
    assert "2" not in json.dumps(answered)


# -- interrupts


def _begun(talk: Talk, code: str) -> tuple[str, Iterator[tuple[str, dict[str, object]]]]:
    """The cell runs, and its card has been drawn."""
    request = talk.begin(code)
    published = talk.published(request)
    assert next(published)[0] == "display_data"
    return request, published


@pytest.mark.parametrize("by_signal", [False, True])
def test_an_interrupt_cancels_the_run(kernel: tuple[Talk, KernelManager], workspace: Path, by_signal: bool) -> None:
    talk, manager = kernel
    seconds = f"61.{os.getpid()}{by_signal:d}"  # nobody else's who tests beside us
    request, published = _begun(talk, f"sh sleep {seconds}\nwrite never.txt no")
    if by_signal:
        os.kill(int(manager.provisioner.pid), signal.SIGINT)  # type: ignore[union-attr]
    else:
        manager.interrupt_kernel()
    rest = list(published)
    assert rest[-1][0] == "error"
    assert "cancelled" in str(rest[-2][1]["data"])
    reply = talk.reply(request)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert subprocess.run(["pgrep", "-f", f"sleep {seconds}"], check=False, capture_output=True).returncode == 1
    assert not (workspace / "never.txt").exists()
    assert talk.run("ls").reply["status"] == "ok"


def test_an_interrupt_ends_the_wait_for_an_approval(kernel: tuple[Talk, KernelManager]) -> None:
    talk, manager = kernel
    request, published = _begun(talk, "sh --wait 60 rm -r notes.txt")
    manager.interrupt_kernel()
    list(published)
    assert talk.reply(request)["ename"] == "KeyboardInterrupt"
    assert "rm -r notes.txt" not in talk.run("runs -s awaiting_approval").text


def test_an_interrupt_of_nothing_is_nothing(kernel: tuple[Talk, KernelManager]) -> None:
    talk, manager = kernel
    manager.interrupt_kernel()
    os.kill(int(manager.provisioner.pid), signal.SIGINT)  # type: ignore[union-attr]
    talk.run("help")  # a message on another channel may come while this runs
    assert talk.run("ls").reply["status"] == "ok"


def test_the_run_of_a_cell_ends_with_the_kernel(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with running_kernel(workspace, tmp_path / "jupyter") as (talk, _):
        _begun(talk, f"sh sleep 62.{os.getpid()}")
    assert subprocess.run(["pgrep", "-f", f"sleep 62.{os.getpid()}"], check=False).returncode == 1
    with running_kernel(workspace, tmp_path / "jupyter") as (talk, _):
        assert "cancelled" in talk.run("show last").text


# -- help while writing


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("# first\nread no", ["notes.txt"]),
        ("sh \\\n  cat no", ["notes.txt"]),
        ('[{"type": "edi', ["editFile"]),
        ("write made.txt\nls no", []),
        ("ls --", ["--help", "--recursive", "--depth", "--quiet", "--raise"]),
    ],
)
def test_completion(talk: Talk, code: str, expected: list[str]) -> None:
    talk.run("ls")
    assert talk.complete_until(code, expected) == expected


def test_inspection_has_the_documentation_and_the_verdict(talk: Talk) -> None:
    assert talk.inspect("search x", 3).startswith("usage: search")
    asked = talk.inspect("ls\nsh rm -r build", 10)
    assert "ask" in asked
    assert "usage: sh" in asked
    assert "deny" in talk.inspect("read .env", 8)
    described = talk.inspect("- type: shell\n  command: x", 10)
    assert "command    text, required" in described
    assert "isolation  layer or shared (default: layer)" in described
    assert talk.inspect("nothing at all", 3) == ""


def test_inspection_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a verdict; the documentation is there."""
    is_asked, may_go = threading.Event(), threading.Event()

    def client() -> Any:
        is_asked.set()
        may_go.wait(30)
        raise NotFound("nobody")

    monkeypatch.setattr(inspection, "PATIENCE", 0.0)
    told = inspection.inspect("sh rm -r build", 10, Lookup(client))
    assert told["text/plain"].startswith("usage: sh")
    assert is_asked.wait(30)
    may_go.set()


def test_nothing_is_done_by_inspection(talk: Talk, workspace: Path) -> None:
    talk.inspect("write inspected.txt hello", 22)
    assert not (workspace / "inspected.txt").exists()


# -- parameters, and the end

INJECTED = '# Parameters\nname = "two words; touch owned"\nmany = 3\nnames = ["a", "b"]\n'
"""The cell that `papermill -p` adds."""


def test_parameters_of_papermill_fill_later_cells(talk: Talk, workspace: Path) -> None:
    assert talk.run("name = 'first'").reply["status"] == "ok"  # the cell with the tag `parameters`
    assert talk.run(INJECTED).messages == [] and not (workspace / "owned").exists()
    assert "| two words; touch owned 3 {{none}}" in talk.run("sh echo {{name}} {{ many }} {{none}}").text
    talk.run("write {{name}}.txt x")
    assert (workspace / "two words; touch owned.txt").read_text() == "x"
    talk.run('- {type: createFile, path: batch.txt, content: "{{name}} {{names}}"}')
    assert (workspace / "batch.txt").read_text() == "two words; touch owned ['a', 'b']"
    assert not (workspace / "owned").exists()


@pytest.mark.parametrize("code", ["x = open('a')", "x = y", "x = 1 + 1", "x = __import__('os')", "x = nan"])
def test_a_parameter_is_not_evaluated(talk: Talk, code: str) -> None:
    answer = talk.run(code).reply
    assert answer["ename"] == "INVALID_ARGUMENT" and "x: the value is no text" in answer["evalue"]


def test_papermill_writes_such_a_cell() -> None:
    translators = pytest.importorskip("papermill.translators", reason="papermill is not installed")
    values = {"name": "two words; touch owned", "many": 3, "names": ["a", "b"]}
    assert translators.translate_parameters("wap", "wap", values, "Parameters") == INJECTED


def test_exit_ends_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with running_kernel(tmp_path / "work", tmp_path / "jupyter") as (talk, manager):
        answer = talk.run("exit").reply
        assert answer["status"] == "ok"
        assert answer["payload"] == [{"source": "ask_exit", "keepkernel": False}]
        deadline = time.monotonic() + SECONDS
        while manager.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.02)


# -- no Python


@pytest.mark.parametrize("code", ["print(1)", "1 + 1", "import os", "%ls", "!ls", "{{1 + 1}}", "__import__('os')"])
def test_python_is_not_understood(talk: Talk, code: str) -> None:
    assert talk.run(code).reply["ename"] == "INVALID_ARGUMENT"


def test_there_is_no_debugger_and_no_subshell(talk: Talk) -> None:
    assert talk.reply(talk.client.kernel_info())["supported_features"] == []
    message = talk.client.session.msg("create_subshell_request", {})
    talk.client.control_channel.send(message)
    assert talk.client.get_control_msg(timeout=SECONDS)["content"]["status"] == "error"


def test_nothing_is_imported_from_the_folder_of_the_notebook(tmp_path: Path) -> None:
    """Whoever may write files there could otherwise run code outside the sandbox, at the next start."""
    workspace = tmp_path / "workspace"
    (workspace / "wap_kernel").mkdir(parents=True)
    for name in ("wap_kernel/__init__.py", "yaml.py", "pydantic.py", "ipykernel.py", "sitecustomize.py", "sqlite3.py"):
        (workspace / name).write_text(MARKED)
    for name in ("ipython_config.py", "ipython_kernel_config.py", "jupyter_wap_config.py"):
        (workspace / name).write_text(MARKED)
    with running_kernel(workspace, tmp_path / "jupyter", {"PYTHONPATH": str(workspace)}) as (talk, _):
        assert "hello" in talk.run("- type: shell\n  command: echo hello\n").text
    assert not list(workspace.rglob("ran"))


def test_without_a_sandbox_there_are_no_commands(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    config = tmp_path / "jupyter" / "config"
    config.mkdir(parents=True)
    (config / "jupyter_wap_config.json").write_text(json.dumps({"WapExtension": {"provider": "local"}}))
    with running_kernel(workspace, tmp_path / "jupyter") as (talk, _):
        said = talk.run("sh --yes touch made")
        assert said.reply["ename"] == "PROVIDER_UNAVAILABLE"
        assert not (workspace / "made").exists()
        assert talk.run("write made.txt x").reply["status"] == "ok"
