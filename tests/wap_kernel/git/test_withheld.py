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

from tests.wap_kernel.dialects.interface import AGENT, SECONDS, Interface, opened
from wap_kernel.changes import ReplaceText
from wap_kernel.git.credentials import CredentialSource, SecretFile, TokenFile
from wap_kernel.git.github import GitHubApp
from wap_kernel.git.settings import GitSettings
from wap_kernel.operations import CreateDirectory, ModifyFile, Operation, ReadFile, WriteFile
from wap_kernel.policy.model import Policy
from wap_kernel.runs.model import Options, Step

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
    read: list[str] = []

    def parts(text: str) -> tuple[str, ...]:
        read.append(text)
        return (text.strip(),)

    file = SecretFile(str(token_file), parts)
    assert file.secrets() == file.secrets() == (TOKEN,) and len(read) == 1
    token_file.chmod(0o644)  # which is refused where it is used, and is known all the same
    token_file.write_text("")
    assert file.secrets() == (TOKEN,)
    for number in range(40):
        token_file.write_text(f"token-{number:040}")
        assert file.secrets()[0].endswith(str(number)) and len(file.secrets()) <= 16
    os.mkfifo(token_file.with_name("pipe"))
    assert SecretFile(str(token_file.with_name("pipe")), parts).secrets() == ()


def test_a_private_key_is_known_in_every_form(tmp_path: Path, key_file: Path) -> None:
    key = key_file.read_text().strip()
    body = key.splitlines()[1:-1]
    shown = [key, "".join(body), "\n".join(body), "\r\n".join(body), *forms(key)[1:]]
    with tools_with(tmp_path, GitHubApp("1", str(key_file))) as tools:
        for form in shown:
            told = tools("bash", command=f"printf %s '{form}'")["stdout"]
            assert "***" in told and not any(line[8:-8] in told for line in body), told
            assert form.replace("\n", "")[100:120] not in told.replace("\n", "")


def test_a_file_that_holds_one_is_not_shown(tools: Interface) -> None:
    for number, form in enumerate(forms(TOKEN)):
        (tools.root / f"{number}.txt").write_text(f"first\nkey = {form}\n")
        error = tools.refuse("read", file_path=f"{number}.txt")
        assert error.code.value == "PERMISSION_DENIED" and "credential" in error.text
    (tools.root / "other.txt").write_text("first\n")
    assert "first" in tools("read", file_path="other.txt")["content"]
    assert tools.audit()[-2]["outcome"] == "denied"


def test_in_a_search_it_is_masked(tools: Interface) -> None:
    (tools.root / "a.txt").write_text(f"before {TOKEN}\nkey = {TOKEN};\nafter {TOKEN}\n")
    found = tools("grep", pattern="key", context=1)
    assert found["count"] == 1 and "key = ***;" in json.dumps(found) and TOKEN not in json.dumps(found)


def run(tools: Interface, *operations: Operation, dry: bool = False) -> list[Any]:
    """The events message and the changes of a run."""

    async def whole() -> list[Any]:
        steps = [Step(str(number), operation.kind, operation) for number, operation in enumerate(operations)]
        options = Options(dry_run=dry)
        begun = await tools.runner.start(steps, options, AGENT, dialect="agent_spaces")
        await tools.runner.wait(begun.id, SECONDS)
        ended = await tools.runner.get(begun.id, AGENT)
        return [await tools.runner.message(ended, AGENT), await tools.runner.changes(begun.id, AGENT)]

    told: list[Any] = tools._wait(whole())
    return told


@pytest.mark.parametrize("dry", [False, True])
def test_runs_tell_it_in_no_event_and_no_diff(tools: Interface, dry: bool) -> None:
    (tools.root / "a.txt").write_text(f"key = {TOKEN}\none\n")
    edit = ModifyFile(path="a.txt", changes=(ReplaceText(old_content="one", new_content=f"two {TOKEN}"),))
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


def test_a_short_one_hides_no_file(tmp_path: Path, token_file: Path) -> None:
    """It may be a word like any other."""
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
