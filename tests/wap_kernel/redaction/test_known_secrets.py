"""The server's own credentials are known from the start, used or not, and no file that holds one is shown."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.time_limits import cpu_time
from tests.support.tool_interface import AGENT, SECONDS, Interface, opened
from wap_kernel.git.remote.credentials import CredentialSource, SecretFile, TokenFile
from wap_kernel.git.remote.github_app import GitHubApp
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.git.results import Person
from wap_kernel.model.operations import CreateDirectory, ModifyFile, Operation, ReadFile, ReadNotebook, WriteFile
from wap_kernel.model.policy import Policy
from wap_kernel.model.run import BatchOptions, Step
from wap_kernel.redaction.results import CurrentRedactor

TOKEN = "Correct+Horse/Battery=Staple0123"
ORIGIN = "https://git.example.org"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "app.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(path), "2048"], check=True, capture_output=True)
    path.chmod(0o600)
    return path


def tools_with(folder: Path, source: CredentialSource) -> Any:
    return opened(folder, git=GitSettings(source=source))


@pytest.fixture
def tools(tmp_path: Path, token_file: Path) -> Iterator[Interface]:
    with tools_with(tmp_path, TokenFile(str(token_file), origin=ORIGIN)) as found:
        yield found


def forms(secret: str) -> list[str]:
    return [secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()]


def test_a_token_is_known_before_it_is_used(tools: Interface) -> None:
    for form in forms(TOKEN):
        assert tools("bash", command=f"echo '{form}'")["stdout"] == "***\n"
        assert TOKEN not in tools.refuse("read", file_path=f"none/{form}").text


def test_one_that_was_replaced_stays_known(tools: Interface, token_file: Path) -> None:
    other = "Another-Token-0123456789"
    token_file.write_text(other)
    assert tools("bash", command=f"echo '{TOKEN} {other}'")["stdout"] == "*** ***\n"
    token_file.unlink()
    assert tools("bash", command=f"echo '{TOKEN} {other}'")["stdout"] == "*** ***\n"


def test_a_file_is_looked_at_again_only_when_it_has_changed(token_file: Path) -> None:
    file = SecretFile(str(token_file))
    assert file.texts() == (TOKEN,) and file.texts() is file.texts()
    token_file.chmod(0o644)  # which is refused where it is used, and is known all the same
    token_file.write_text("")
    assert file.texts() == (TOKEN,)
    for number in range(40):
        token_file.write_text(f"token-{number:040}")
        assert file.texts()[0].endswith(str(number)) and len(file.texts()) <= 16
    os.mkfifo(token_file.with_name("pipe"))
    assert SecretFile(str(token_file.with_name("pipe"))).texts() == ()


def lines_of(key: str) -> list[str]:
    return [line for line in key.splitlines()[1:-1] if len(line) > 24]


def test_a_private_key_is_known_in_every_form(tmp_path: Path, key_file: Path) -> None:
    key = key_file.read_text().strip()
    body = key.splitlines()[1:-1]
    shown = [key, "".join(body), "\n".join(body), "\r\n".join(body), "\n> ".join(body[3:9]), *forms(key)[1:]]
    with tools_with(tmp_path, GitHubApp("1", str(key_file), identity=Person("a", "a@example.org"))) as tools:
        for form in shown:
            told = tools("bash", command=f"printf %s '{form}'")["stdout"]
            assert "***" in told and not any(line[8:-8] in told for line in lines_of(key)), told
            assert form.replace("\n", "")[100:120] not in told.replace("\n", "")


def test_of_a_private_key_no_line_is_shown(tmp_path: Path, key_file: Path) -> None:
    """Wherever lines stand alone: in ranges, diffs, searches and cells."""
    key = key_file.read_text()
    with tools_with(tmp_path, GitHubApp("1", str(key_file), identity=Person("a", "a@example.org"))) as tools:
        (tools.root / "k.txt").write_text(key)
        cell = {"cell_type": "raw", "id": "a", "metadata": {}, "source": key.splitlines(keepends=True)}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
        (tools.root / "n.ipynb").write_text(json.dumps(notebook))
        told: list[Any] = [
            tools.refuse("read", file_path="k.txt", offset=5, limit=2).text,
            tools.refuse("read", file_path="n.ipynb").text,
            tools("grep", pattern=".", context=3),
            tools("bash", command="cat -n k.txt; head -5 k.txt; cat n.ipynb"),
            tools.refuse("edit", file_path="k.txt", old_string=f"{key[60:120]}x", new_string="y").details,
            tools("edit", file_path="k.txt", old_string="-----BEGIN", new_string="----- BEGIN"),
        ]
        tools.repository()
        tools("git", action="add", files=["k.txt"])
        told += [tools("git", action="diff"), tools("git", action="commit", message="m"), tools.audit()]
        told += [tools("git", action="show"), *run(tools, WriteFile(path="b", content=key.encode()))]
        assert not [line for line in lines_of(key) if line[4:-4] in json.dumps(told)]


def test_a_file_that_holds_one_is_not_shown(tools: Interface) -> None:
    for number, form in enumerate(forms(TOKEN)):
        (tools.root / f"{number}.txt").write_text(f"first\nkey = {form}\n")
        error = tools.refuse("read", file_path=f"{number}.txt")
        assert error.code.value == "PERMISSION_DENIED" and "credential" in error.text
    (tools.root / "other.txt").write_text("first\n")
    assert "first" in tools("read", file_path="other.txt")["content"]
    assert tools.audit()[-2]["outcome"] == "denied"


@pytest.mark.parametrize("size", [8, 20, 31])
def test_no_part_is_shown_where_a_text_is_cut(tools: Interface, size: int) -> None:
    """Lines are cut at 2,000 characters, outputs of cells in their middle."""
    (tools.root / "a.txt").write_text(f"{'.' * (2000 - size)}{TOKEN}{'.' * 100}\n")
    assert "credential" in tools.refuse("read", file_path="a.txt").text
    assert TOKEN[:8] not in json.dumps(tools("grep", pattern=r"\.\."))
    for place in (2000 - size, 6000 - 2000 - len(TOKEN) + size):
        text = f"{'.' * place}{TOKEN}{'.' * (6000 - place - len(TOKEN))}"
        output = {"output_type": "stream", "name": "stdout", "text": text}
        cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": 1, "outputs": [output]}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
        (tools.root / "n.ipynb").write_text(json.dumps(notebook))
        told = run(tools, ReadNotebook(path="n.ipynb", outputs=True))
        assert not any(TOKEN[at : at + 8] in json.dumps(told) for at in range(len(TOKEN) - 8)), told
    (tools.root / "b.txt").write_text(f"{'.' * 3000}{TOKEN[:3]}\n")  # which could be anything
    assert "..." in tools("read", file_path="b.txt")["content"]


@pytest.mark.parametrize("part", [8, 20, 31])
def test_no_part_is_shown_where_the_excerpt_of_a_long_line_begins_and_ends(tools: Interface, part: int) -> None:
    """A caller chooses by the query where a line is cut."""
    before = f"{'.' * 3000}{TOKEN}{'.' * (500 - part)}needle{'.' * 5000}"
    after = f"{'.' * 3000}needle{'.' * (1488 - part)}{TOKEN}{'.' * 5000}"
    (tools.root / "a.txt").write_text(f"{before}\n-\n{after}\n")
    found = tools("grep", pattern="needle")["matches"]
    assert [match["line_number"] for match in found] == [1, 3]
    assert not any(TOKEN[at : at + 8] in match["line"] for match in found for at in range(len(TOKEN) - 7)), found


def test_a_file_that_says_it_was_cut_is_read_in_time(tools: Interface) -> None:
    (tools.root / "a.txt").write_text(("+" * 64 + "... [1 more]\n") * 1500)
    (tools.root / "b.txt").write_text(("+" * 64 + "\n[... 7 characters left out ...]\n") * 5000)
    with cpu_time(20):
        assert "more" in tools("read", file_path="a.txt")["content"]
        assert "left out" in tools("bash", command="cat b.txt b.txt")["stdout"]


def test_a_notebook_whose_token_json_writes_otherwise(tmp_path: Path, token_file: Path) -> None:
    token = 'ab"cd\\ef-0123456789ghij'
    token_file.write_text(token)
    cell = {"cell_type": "raw", "id": "a", "metadata": {}, "source": f"x = {token}"}
    with tools_with(tmp_path, TokenFile(str(token_file), origin=ORIGIN)) as tools:
        (tools.root / "n.ipynb").write_text(
            json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
        )
        told = run(tools, ReadNotebook(path="n.ipynb"))
        assert "cd" not in json.dumps(told[0]["events"]) and "credential" in json.dumps(told)
        assert token not in tools("bash", command="cat n.ipynb")["stdout"]


def test_names_of_files_and_of_who_asks_are_masked(tools: Interface) -> None:
    name = f"a-{TOKEN.replace('/', '_')}"
    token = name.removeprefix("a-")
    (tools.root.parent / "token").write_text(token)
    (tools.root / name).write_text("x\n")
    told = [tools("glob", pattern="**"), tools("grep", pattern="x"), tools("read", file_path="."), tools.audit()]
    told.append(tools("write", file_path=f"{name}.txt", content=""))
    assert token not in json.dumps(told) and "***" in json.dumps(told)


def test_in_a_search_it_is_masked(tools: Interface) -> None:
    (tools.root / "a.txt").write_text(f"before {TOKEN}\nkey = {TOKEN};\nafter {TOKEN}\n")
    found = tools("grep", pattern="key", context=1)
    assert found["count"] == 1 and "key = ***;" in json.dumps(found) and TOKEN not in json.dumps(found)


def run(tools: Interface, *operations: Operation, dry: bool = False) -> list[Any]:
    """The events message and the changes of a run."""

    async def whole() -> list[Any]:
        steps = [Step(str(number), operation.kind, operation) for number, operation in enumerate(operations)]
        options = BatchOptions(dry_run=dry)
        begun = await tools.runner.start(steps, options, AGENT, dialect="agent_spaces")
        await tools.runner.wait(begun.id, SECONDS)
        ended = await tools.runner.get(begun.id, AGENT)
        return [await tools.runner.message(ended, AGENT), await tools.runner.changes(begun.id, AGENT)]

    told: list[Any] = tools._wait(whole())
    return told


@pytest.mark.parametrize("dry", [False, True])
def test_runs_tell_it_in_no_event_and_no_diff(tools: Interface, dry: bool) -> None:
    (tools.root / "a.txt").write_text(f"key = {TOKEN}\none\n")
    edit = ModifyFile(path="a.txt", edits=(ReplaceText(old_content="one", new_content=f"two {TOKEN}"),))
    told = run(
        tools,
        ReadFile(path="a.txt"),
        WriteFile(path="b.txt", content=TOKEN.encode()),
        edit,
        CreateDirectory(path="folder"),
        dry=dry,
    )
    first, *others = told[0]["events"]
    assert first["success"] is False if "success" in first else first["type"] == "policyDenied"
    assert len(others) == 3 and TOKEN not in json.dumps(told)


def test_where_nothing_is_known_nothing_is_looked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as tools:
        assert tools.workspace.redactor.has_no_secrets
    known: list[str] = ["hunter2"]
    redactor = CurrentRedactor(lambda: tuple(known))
    assert redactor.has_no_secrets and redactor("hunter2") == "***" and redactor.line("hunter2") == "hunter2"
    known.append(TOKEN)
    assert not redactor.has_no_secrets and redactor.mask_known(f"hunter2 {TOKEN}") == "hunter2 ***"


def test_a_short_one_hides_no_file(tmp_path: Path, token_file: Path) -> None:
    """A short secret may be an ordinary word."""
    token_file.write_text("hunter2")
    with tools_with(tmp_path, TokenFile(str(token_file), origin=ORIGIN)) as tools:
        (tools.root / "a.txt").write_text("hunter2\n")
        assert "hunter2" in tools("read", file_path="a.txt")["content"]
        assert tools("bash", command="cat a.txt")["stdout"] == "***\n"


def test_the_diff_of_a_question_is_masked(tmp_path: Path, token_file: Path) -> None:
    source = TokenFile(str(token_file), origin=ORIGIN)
    asking = Policy(name="asking", confirmation_required=("write",))
    with opened(tmp_path, git=GitSettings(source=source), policy=asking) as tools:
        error = tools.refuse("write", file_path="a.txt", content=f"one\n{TOKEN}\n")

        async def told() -> dict[str, Any]:
            found = await tools.runner.get(str(error.details["runId"]), AGENT)
            return await tools.runner.message(found, AGENT)

        message = tools._wait(told())
        assert "+***" in message["pendingApproval"]["diff"] and TOKEN not in json.dumps(message)
