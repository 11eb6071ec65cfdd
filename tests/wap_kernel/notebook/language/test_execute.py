"""Execute lines in a real workspace, and leave nothing behind where one is stopped."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.layer_conflicts import change_meanwhile
from wap_kernel.client.results import RunResult
from wap_kernel.client.run_tracker import RunAbandoned
from wap_kernel.client.workspace_client import WorkspaceClient, connect
from wap_kernel.model.errors import FileNotFound, NotFound, WapError
from wap_kernel.notebook.language import LiveCard, execute_line, parse

ASKS = "rm -rf none"
"""A deletion of folders, about which the standard policy asks."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceClient]:
    base = tmp_path_factory.mktemp("performing")
    (base / "ws").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(base / "data"))
        patch.setenv("JUPYTER_CONFIG_DIR", str(base / "config"))
        found = connect(str(base / "ws"))
        yield found
        found.close()


@pytest.fixture
def root(client: WorkspaceClient) -> Path:
    return Path(client.endpoint.name)


def card() -> LiveCard:
    return LiveCard(lambda _: None)


def drawing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wap-live"]


@pytest.mark.parametrize("word", ["00000000", "0000", "run_0000000000000000", "apr_00", "run_zz"])
def test_what_looks_like_an_id_is_no_reason_to_deny_another_run(client: WorkspaceClient, word: str) -> None:
    waits = client.sh(ASKS)
    with pytest.raises(NotFound):
        execute_line(parse(f"deny {word}"), client, card())
    assert client.show(waits.run_id).status == "awaiting_approval"
    denied = execute_line(parse("deny not 00000000"), client, card())
    assert denied.data["runId"] == waits.run_id
    assert "not 00000000" in repr(denied)


def test_what_is_stopped_before_it_begins_does_not(client: WorkspaceClient, root: Path) -> None:
    stopped = card()
    stopped.stop()
    with pytest.raises(RunAbandoned):
        execute_line(parse("write never.txt no"), client, stopped)
    assert not stopped.has_begun
    assert not (root / "never.txt").exists()
    assert drawing() == []


def test_what_is_stopped_while_it_is_watched_is_cancelled(client: WorkspaceClient) -> None:
    """By the thread that watches it, when it hears of it."""
    stopped = card()
    hear = stopped.update

    def hear_and_stop(sent: Any) -> None:
        stopped.stop()
        hear(sent)

    stopped.update = hear_and_stop  # type: ignore[method-assign]
    with pytest.raises(RunAbandoned):
        execute_line(parse("sh -t 600 sleep 1000"), client, stopped)
    assert client.last is not None and client.last.status == "cancelled"
    assert drawing() == []


class Struck(LiveCard):
    """Interrupted when its thread has begun."""

    def begin(self, operations: Any) -> None:
        super().begin(operations)
        raise KeyboardInterrupt


def test_an_interrupt_as_it_begins_leaves_no_thread(client: WorkspaceClient) -> None:
    with pytest.raises(KeyboardInterrupt):
        execute_line(parse("write never.txt no"), client, Struck(lambda _: None))
    assert drawing() == []


@pytest.mark.parametrize("line", ["read data.csv", "ls data", "search x data.csv"])
def test_a_notebook_in_a_folder_is_told_where_paths_begin(
    client: WorkspaceClient, root: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (root / "week 1" / "mine").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(root / "week 1" / "mine")
    with pytest.raises(FileNotFound) as missing:
        execute_line(parse(line), client, card())
    assert missing.value.hint == "Paths begin at the workspace. The files next to this notebook are in week 1/mine/"
    for elsewhere in (root, root.parent):
        monkeypatch.chdir(elsewhere)
        with pytest.raises(FileNotFound) as missing:
            execute_line(parse(line), client, card())
        assert missing.value.hint is None


def test_grants_say_how_they_are_made_and_taken_back(client: WorkspaceClient) -> None:
    assert "%wap approve RUN --always" in repr(execute_line(parse("grants"), client, card()))
    client.write(".vscode/settings.json", "{}")
    client.approve(remember=True)
    given = execute_line(parse("grants"), client, card())
    grant = given.data["grants"][0]["id"]
    assert f"To be asked again: %wap grants --revoke {grant}" in repr(given)
    with pytest.raises(NotFound, match="no grant 'grant_none'") as missing:
        execute_line(parse("grants --revoke grant_none"), client, card())
    assert missing.value.hint == "To see them all: %wap grants"
    assert execute_line(parse(f"grants --revoke {grant}"), client, card()).data["grants"] == []


def test_a_command_may_write_directly(client: WorkspaceClient, root: Path) -> None:
    run = execute_line(parse("sh --shared echo x > shared.txt"), client, card())
    assert isinstance(run, RunResult) and run.ok and run.events[0]["isolation"] == "shared"
    assert (root / "shared.txt").read_text() == "x\n"
    assert "The command wrote into the workspace directly. A revert does not undo it." in repr(run)


def test_what_a_command_could_not_apply_is_applied(client: WorkspaceClient, root: Path) -> None:
    names = ("one.txt", "two.txt")
    left = change_meanwhile(client, root, *names)
    assert left.events[0]["conflicts"] == list(names) and f"%wap apply {left.run_id}" in repr(left)
    one = execute_line(parse(f"apply {left.run_id} one.txt"), client, card())
    assert one.data["events"][0]["applied"] == ["one.txt"]
    assert [(root / name).read_text() for name in names] == ["command\n", "person\n"]
    execute_line(parse(f"apply {left.run_id}"), client, card())
    assert [(root / name).read_text() for name in names] == ["command\n", "command\n"]
    execute_line(parse("revert last"), client, card())
    assert (root / "two.txt").read_text() == "person\n"


SAID = {
    "ls a.txt": '"read PATH" reads it.',
    "read sub": '"ls PATH" lists it.',
    "read large": '"read PATH 1:100" reads a part of it.',
    "read a.txt 7:": "Line 7 is past the end: the file has 1 line.",
    "read binary": 'A batch reads it: {"type": "readFile"',
    "search x sub/none": "No such file or folder: sub/none",
    "show run_0000000000000000": "List the runs to see their ids.",
    "cancel run_0000000000000000": "List the runs to see their ids.",
    "rm sub": 'Is a folder: sub. "sh rm -r PATH" deletes it.',
    "rm .": "rm -r",
    "write sub x": "Is a folder: sub. Name a file to write, in it or elsewhere.",
    "edit binary a b": "Change it with a command.",
    "search -e (a": "leave out -e to search for exact text.",
    'search ""': "search: the text to search for is empty.",
    'edit a.txt "" b': "edit: the text to replace is empty.",
    "sh -t 1 sleep 60": '"sh -t SECONDS COMMAND" gives it more time, up to 600 seconds.',
}
FOREIGN = re.compile(
    r"exploreFiles|createFile|\"literal\"|startLine|endLine|recursive: true|encoding \"|\bms\b|GET |POST |wap/"
)


def test_what_to_do_next_is_said_in_words_of_a_line(client: WorkspaceClient, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("a\n")
    (root / "binary").write_bytes(b"\0")
    (root / "large").write_bytes(b"x\n" * 1024 * 1024)
    for line, said in SAID.items():
        try:
            answer = execute_line(parse(line), client, card())
        except WapError as error:
            text = error.text
        else:
            assert isinstance(answer, RunResult)
            text = "\n".join(repr(answer).splitlines()[1:])
        assert said in text, line
        assert not FOREIGN.search(re.sub(r"\([^()]*\)$", "", text)), text  # but for the facts in parentheses


def test_help_offers_variables_where_there_is_python(client: WorkspaceClient) -> None:
    for line in ("help ls", "help run"):
        assert "--to" in repr(execute_line(parse(line), client, card(), {}))
        assert "--to" not in repr(execute_line(parse(line), client, card())) and "{{" not in repr(
            execute_line(parse(line), client, card())
        )
