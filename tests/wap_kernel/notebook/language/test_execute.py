"""What a line does, in a real workspace, and that nothing is left behind where it is stopped."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.client.results import RunResult
from wap_kernel.client.watching import RunAbandoned
from wap_kernel.client.workspace_client import WorkspaceClient, connect
from wap_kernel.model.errors import FileNotFound, NotFound, WapError
from wap_kernel.notebook.language import LiveCard, parse, perform

ASKS = "factor 6"
"""The standard policy does not know this program, so it asks."""


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceClient]:
    base = tmp_path_factory.mktemp("performing")
    (base / "ws").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(base / "data"))
        patch.setenv("JUPYTER_CONFIG_DIR", str(base / "config"))
        found = connect(str(base / "ws"))
        yield found
        found.close()


@pytest.fixture
def root(hands: WorkspaceClient) -> Path:
    return Path(hands.place.name)


def card() -> LiveCard:
    return LiveCard(lambda _: None)


def drawing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wap-live"]


@pytest.mark.parametrize("word", ["00000000", "0000", "run_0000000000000000", "apr_00", "run_zz"])
def test_what_looks_like_an_id_is_no_reason_to_deny_another_run(hands: WorkspaceClient, word: str) -> None:
    waits = hands.sh(ASKS)
    with pytest.raises(NotFound):
        perform(parse(f"deny {word}"), hands, card())
    assert hands.show(waits.run_id).status == "awaiting_approval"
    denied = perform(parse("deny not 00000000"), hands, card())
    assert denied.data["runId"] == waits.run_id
    assert "not 00000000" in repr(denied)


def test_what_is_stopped_before_it_begins_does_not(hands: WorkspaceClient, root: Path) -> None:
    stopped = card()
    stopped.stop()
    with pytest.raises(RunAbandoned):
        perform(parse("write never.txt no"), hands, stopped)
    assert not stopped.has_begun
    assert not (root / "never.txt").exists()
    assert drawing() == []


def test_what_is_stopped_while_it_is_watched_is_cancelled(hands: WorkspaceClient) -> None:
    """By the thread that watches it, when it hears of it."""
    stopped = card()
    hear = stopped.sent

    def hear_and_stop(sent: Any) -> None:
        stopped.stop()
        hear(sent)

    stopped.sent = hear_and_stop  # type: ignore[method-assign]
    with pytest.raises(RunAbandoned):
        perform(parse("sh -t 600 sleep 1000"), hands, stopped)
    assert hands.last is not None and hands.last.status == "cancelled"
    assert drawing() == []


class Struck(LiveCard):
    """Interrupted when its thread has begun."""

    def begin(self, operations: Any) -> None:
        super().begin(operations)
        raise KeyboardInterrupt


def test_an_interrupt_as_it_begins_leaves_no_thread(hands: WorkspaceClient) -> None:
    with pytest.raises(KeyboardInterrupt):
        perform(parse("write never.txt no"), hands, Struck(lambda _: None))
    assert drawing() == []


@pytest.mark.parametrize("line", ["read data.csv", "ls data", "search x data.csv"])
def test_a_notebook_in_a_folder_is_told_where_paths_begin(
    hands: WorkspaceClient, root: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (root / "week 1" / "mine").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(root / "week 1" / "mine")
    with pytest.raises(FileNotFound) as missing:
        perform(parse(line), hands, card())
    assert missing.value.hint == "Paths begin at the workspace. What lies beside this notebook is in week 1/mine/"
    for elsewhere in (root, root.parent):
        monkeypatch.chdir(elsewhere)
        with pytest.raises(FileNotFound) as missing:
            perform(parse(line), hands, card())
        assert missing.value.hint is None


def test_grants_say_how_they_are_made_and_taken_back(hands: WorkspaceClient) -> None:
    assert "%wap approve RUN --always" in repr(perform(parse("grants"), hands, card()))
    hands.sh(ASKS)
    hands.approve(remember=True)
    given = perform(parse("grants"), hands, card())
    grant = given.data["grants"][0]["id"]
    assert f"To be asked again: %wap grants --revoke {grant}" in repr(given)
    with pytest.raises(NotFound, match="no grant 'grant_none'") as missing:
        perform(parse("grants --revoke grant_none"), hands, card())
    assert missing.value.hint == "To see them all: %wap grants"
    assert perform(parse(f"grants --revoke {grant}"), hands, card()).data["grants"] == []


SAID = {
    "ls a.txt": '"read PATH" reads it.',
    "read sub": '"ls PATH" lists it.',
    "read large": '"read PATH 1:100" reads a part of it.',
    "read a.txt 7:": "Line 7 is past the end: the file has 1 line.",
    "read binary": 'A batch reads it: {"type": "readFile"',
    "search x sub/none": "No such file or folder: sub/none",
    "show run_0000000000000000": "List the runs to see their ids.",
    "cancel run_0000000000000000": "List the runs to see their ids.",
    "rm sub": "Is a folder: sub. Delete it with a command: rm -r.",
    "rm .": "rm -r.",
    "write sub x": "Is a folder: sub. Name a file to write, in it or elsewhere.",
    "edit binary a b": "Change it with a command.",
    "search -e (a": "leave out -e to search for exact text.",
    'search ""': "search: there is no text to look for.",
    'edit a.txt "" b': "edit: there is no text to be replaced.",
    "sh -t 1 sleep 60": "Ask for a longer timeout, up to 600 seconds, or do less at once.",
}
FOREIGN = re.compile(
    r"exploreFiles|createFile|\"literal\"|startLine|endLine|recursive: true|encoding \"|\bms\b|GET |POST |wap/"
)


def test_what_to_do_next_is_said_in_words_of_a_line(hands: WorkspaceClient, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("a\n")
    (root / "binary").write_bytes(b"\0")
    (root / "large").write_bytes(b"x\n" * 1024 * 1024)
    for line, said in SAID.items():
        try:
            answer = perform(parse(line), hands, card())
        except WapError as error:
            text = error.text
        else:
            assert isinstance(answer, RunResult)
            text = str(answer.problems[0]["error"])
        assert said in text, line
        assert not FOREIGN.search(text.partition("The command was ended after")[0]), text


def test_help_offers_variables_where_there_is_python(hands: WorkspaceClient) -> None:
    for line in ("help ls", "help run"):
        assert "--to" in repr(perform(parse(line), hands, card(), {}))
        assert "--to" not in repr(perform(parse(line), hands, card())) and "{{" not in repr(
            perform(parse(line), hands, card())
        )
