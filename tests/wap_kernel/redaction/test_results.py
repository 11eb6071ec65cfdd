"""Tests that no credential leaves the engine: in results, streamed output, events, approvals, errors and the audit."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.git_plants import lead_astray, make_program, plant_everything
from tests.support.git_repository import Workspace, plain
from tests.support.git_server import GitServer, Listener
from tests.support.tool_interface import AGENT, SECONDS, Interface, opened
from wap_kernel.git.remote.credentials import NoCredential
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.results import CommandResult
from wap_kernel.model.run import BatchOptions, Step
from wap_kernel.policy import presets
from wap_kernel.providers.process.output_buffer import OutputCollector
from wap_kernel.redaction import results
from wap_kernel.redaction.redactor import Redactor
from wap_kernel.redaction.results import PATTERN_REDACTOR, CurrentRedactor
from wap_kernel.redaction.stream import RedactedStream

SECRET = "hunter2"
NOTHING = CurrentRedactor(lambda: ())
ADDRESS = f"https://ada:{SECRET}@example.org/x.git"


def stored(folder: Path) -> bytes:
    """Return the bytes of the state folder, with the database also as text."""
    with closing(sqlite3.connect(next(folder.rglob("state.db")))) as connection:
        rows = "\n".join(connection.iterdump())
    return rows.encode() + b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def run(tools: Interface, command: str) -> dict[str, Any]:
    """Run `command` as a run, with its output spilled and its events stored."""

    async def whole() -> dict[str, Any]:
        steps = [Step("one", "shell", RunCommand(command=command))]
        begun = await tools.runner.start(steps, BatchOptions(), AGENT, dialect="agent_spaces")
        await tools.runner.wait(begun.id, SECONDS)
        ended = await tools.runner.get(begun.id, AGENT)
        page = await tools.runner.output(begun.id, "one", "stdout", 0, 10_000, AGENT)
        return {"message": await tools.runner.message(ended, AGENT), "output": page}

    response: dict[str, Any] = tools._wait(whole())
    return response


def test_an_address_with_a_password_is_shown_without_it(tmp_path: Path) -> None:
    with opened(tmp_path) as tools:
        tools.repository()
        tools.git("remote", "add", "origin", ADDRESS)
        tools.file("a.txt", "1")
        answer = tools("bash", command="git remote -v; git remote get-url origin >&2")
        assert "https://***@example.org/x.git" in answer["stdout"] and "***@" in answer["stderr"]
        message = f"clones {ADDRESS}"
        answers = [
            answer,
            tools("git", action="commit", message=message, files=["a.txt"]),
            tools("git", action="log"),
            tools("git", action="show"),
            tools("git", action="add", files=["nothing"]),
            tools.refuse("bash", command=f"echo {ADDRESS}; sleep 30", timeout_ms=300).details,
            run(tools, f"git remote -v; echo {ADDRESS}"),
            [tools.refuse("read", file_path=ADDRESS), tools.refuse("bash", command="true", workdir=f"//{ADDRESS}")],
        ]
        answers[7] = [(error.text, error.details) for error in answers[7]]
        assert answers[2]["commits"][0]["subject"] == "clones https://***@example.org/x.git"
        assert "https://***@example.org/x.git" in answers[6]["output"]["content"]
        (event,) = answers[6]["message"]["events"]
        assert event["command"] == "git remote -v; echo https://***@example.org/x.git"
        assert SECRET not in json.dumps([answers, tools.audit()])
        assert SECRET in tools("read", file_path=".git/config")["content"]  # a file is read as it is


def test_a_question_and_its_refusal(tmp_path: Path) -> None:
    with opened(tmp_path, policy=presets.load_preset("standard")) as tools:
        error = tools.refuse("bash", command=f"git push {ADDRESS}")
        run_id = str(error.details["runId"])

        async def get_message() -> dict[str, Any]:
            return await tools.runner.message(await tools.runner.get(run_id, AGENT), AGENT)

        message = tools._wait(get_message())
        assert message["pendingApproval"]["command"] == "git push https://***@example.org/x.git"
        assert SECRET not in json.dumps([message, error.text, error.details, tools.audit()])


def everything_of_processes() -> bytes:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        for file in ("cmdline", "environ"):
            try:
                found.append(Path("/proc", name, file).read_bytes())
            except OSError:
                continue
    return b"\n".join(found)


def forms(token: str) -> dict[str, str]:
    """The forms in which a token could leave."""
    return {
        "plain": token,
        "url": quote(token, safe=""),
        "base64": base64.b64encode(token.encode()).decode(),
        "basic": base64.b64encode(f"x-access-token:{token}".encode()).decode(),
        "urlsafe": base64.urlsafe_b64encode(f":{token}".encode()).decode(),
        "twice": quote(quote(token, safe=""), safe=""),
    }


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def test_the_token_is_found_nowhere(
    connected: Interface, server: GitServer, listener: Listener, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No file holds the token, although the workspace is hostile and the remote reveals the token.

    The workspace leads git to another host; the remote prints the token in every form and names branches by it.
    """
    sampled: list[bytes] = []
    bare = server.repositories / "ada/engine.git"

    def during() -> None:
        sampled.append(everything_of_processes())
        (token,) = server.tokens
        lines = "".join(f"echo '{name}: {form}' >&2\n" for name, form in forms(token).items())
        hook = bare / "hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{lines}echo 'fatal: https://x-access-token:{token}@h/' >&2\nexit 1\n")
        hook.chmod(0o755)

    def git(action: str, **fields: Any) -> dict[str, Any]:
        return connected("git", action=action, url=server.url(), **fields)

    connected.git("branch", "x")
    planted, outside = Workspace.at(connected.root), tmp_path / "outside"
    lead_astray(planted, server.origin, listener.origin)
    plant_everything(planted, make_program(planted, outside))
    server.during = during
    refused = git("push", branch="x")
    assert refused["reason"] == "refused" and refused["stderr"].count("***") >= len(forms("x"))
    (bare / "hooks/pre-receive").unlink()
    server.during = lambda: sampled.append(everything_of_processes())
    answers = [refused, git("push", branch="x")]
    (token,) = server.tokens
    safe = forms(token)["urlsafe"].rstrip("=")
    plain(bare, "branch", f"leak-{safe}", "x")
    answers.append(git("fetch"))
    assert [ref["name"] for ref in answers[-1]["refs"]] == ["***"]
    (connected.root / f".git/refs/remotes/origin/leak-{safe}").unlink()
    plain(bare, "branch", "-D", f"leak-{safe}")
    answers.append(git("fetch"))

    answers.append(connected("git", action="clone", url=server.url(), path="copies/one", branch="x"))
    assert answers[-1]["exit_code"] == 0, answers[-1]
    assert any(password == token for _, password in server.seen)
    assert len(sampled) == 2 and all(b"git-remote-https" in one and b"WAP_GIT_ASKED" in one for one in sampled)
    responses = json.dumps([answers, connected.audit()]).encode()
    texts = {"answers and audit": responses, "printed": "".join(capfd.readouterr()).encode()}
    texts |= {f"processes {number}": one for number, one in enumerate(sampled)}
    # The undo log has the paths of files as they are, and this test named one of them so.
    texts["state"] = stored(tmp_path / "state").replace(f"leak-{safe}".encode(), b"")
    texts |= {str(path): path.read_bytes() for path in connected.root.rglob("*") if path.is_file()}
    parts = [form.rstrip("=")[4:-4].encode() for form in forms(token).values()]
    assert not [(name, part) for name, text in texts.items() for part in parts if part in text]
    assert listener.heard == [] and list(outside.iterdir()) == []
    assert not (connected.root / ".git/ran-inside").exists()
    # Whoever suspects nothing goes there.
    plain(connected.root, "ls-remote", server.url(), check=False)
    assert listener.heard


def test_a_token_that_is_known_is_told_by_no_command(
    connected: Interface, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that matches no pattern is masked in results, streamed output, errors, events and the audit."""
    token = "Correct+Horse/Battery=Staple0123"
    monkeypatch.setattr(server, "issue", lambda: server.tokens.add(token) or token)
    connected("git", action="fetch")
    encodings = forms(token)
    script = "; ".join(f"echo '{name}: {form}'; echo '{form}' >&2" for name, form in encodings.items())
    answers: list[Any] = [
        connected("bash", command=script),
        connected.refuse("bash", command=f"{script}; sleep 30", timeout_ms=300).details,
        run(connected, script),
        connected.refuse("read", file_path=f"none/{token}").text,
        connected.refuse("git", action="branch", branch=f"-{token}").text,
        connected.refuse("bash", command=script, workdir=f"none/{token}").text,
    ]
    assert answers[0]["stdout"].count("***") == len(encodings) == answers[0]["stderr"].count("***")
    answers.append(connected.audit())
    parts = [form.rstrip("=")[4:-4] for form in encodings.values()]
    assert not [(part, answer) for answer in answers for part in parts if part in json.dumps(answer)]


def test_a_token_that_is_known_is_not_asked_about(tmp_path: Path) -> None:
    class Known(NoCredential):
        secrets = ("correct-horse-battery",)

    policy = presets.load_preset("standard")
    with opened(tmp_path, policy=policy, git=GitSettings(source=Known())) as tools:
        error = tools.refuse("bash", command=f"git push {Known.secrets[0]}")

        async def get_message() -> dict[str, Any]:
            found = await tools.runner.get(str(error.details["runId"]), AGENT)
            return await tools.runner.message(found, AGENT)

        message = tools._wait(get_message())
        assert message["pendingApproval"]["command"] == "git push ***"
        assert Known.secrets[0] not in json.dumps([message, error.text, tools.audit()])


TEXT = (
    f"a {ADDRESS} 'ftp://u:{SECRET}@k' http:/u:it's{SECRET}@k //u:{SECRET}@k "
    f"Authorization: Basic aHVudGVyMg== z ghp_0123456789abcdefghij é\r\n"
    f"ok ghs_0123456789abcdefghij github_pat_0123456789abcdefghij eyJ0123456789.eyJ0123456789.0123456789 {ADDRESS}"
)


def streamed(*pieces: bytes, redactor: Redactor = PATTERN_REDACTOR) -> bytes:
    given: list[bytes] = []
    stream = RedactedStream(lambda _, piece: given.append(piece), lambda: redactor)
    for piece in pieces:
        stream("stdout", piece)
    stream.end()
    return b"".join(given)


def test_output_in_pieces_is_redacted_wherever_it_is_cut() -> None:
    data = TEXT.encode()
    assert streamed(data) == PATTERN_REDACTOR(TEXT).encode()
    cuts = [(data[:at], data[at : at + 9], data[at + 9 :]) for at in range(len(data))]
    for pieces in (*cuts, [data[at : at + 1] for at in range(len(data))]):
        found = streamed(*pieces)
        assert not any(part in found for part in (SECRET.encode(), b"0123456789", b"aHVudGVyMg")), pieces
        assert found.count(b"**") >= 10 and found.endswith(b"@example.org/x.git")


def test_a_known_secret_in_pieces_is_redacted_wherever_it_is_cut() -> None:
    token = "Correct+Horse/Battery=Staple0123"
    redactor = Redactor([token])
    broken = base64.encodebytes(f"{'x' * 40}{token}".encode()).decode()
    parts = [form.rstrip("=")[4:-4].encode() for form in forms(token).values()]
    for form in (*forms(token).values(), broken):
        data = f"before {form} after\n".encode()
        cuts = [(data[:at], data[at : at + 9], data[at + 9 :]) for at in range(len(data))]
        for pieces in (*cuts, [data[at : at + 1] for at in range(len(data))]):
            found = streamed(*pieces, redactor=redactor)
            assert found.startswith(b"before ") and found.endswith(b" after\n") and b"**" in found, pieces
            squeezed = found.replace(b"\n", b"")
            assert not any(part in squeezed for part in parts), (pieces, found)


def test_no_half_of_a_known_secret_is_left_where_an_output_is_cut() -> None:
    token = "correct/horse+battery"
    for form in (token, quote(token, safe=""), base64.b64encode(token.encode()).decode()):
        for at in range(4, len(form) - 4):
            cut = f"{'.' * 50} {form[:at]}\n[... 7 bytes left out ...]\n{form[at:]} {'.' * 50}"
            found = results.redact_result(command_result(cut), CurrentRedactor(lambda: (token,)))
            assert isinstance(found, CommandResult)
            assert form[:at] not in found.stdout and form[at:] not in found.stdout, (at, found.stdout)


def test_no_half_of_a_credential_is_left_where_an_output_is_cut() -> None:
    halves = ("hunter2hunter2", "0123456789abcdefGHIJ")
    text = f"https://ada:{halves[0]}@h ghp_{halves[1]} "
    for shift in range(len(text) + 1):
        kept = OutputCollector(2000)
        kept.feed(("." * shift + " " + text * 200).encode())
        cut = kept.text(1000)
        found = results.redact_result(command_result(cut.text), NOTHING)
        assert isinstance(found, CommandResult) and cut.truncated and "left out" in found.stdout
        assert not any(half[at : at + 10] in found.stdout for half in halves for at in range(len(half) - 9)), found
    plain_words = ("words like any other, " * 200)[:900] + "\n[... 7 bytes left out ...]\nther, 123 more words"
    assert results.redact_result(command_result(plain_words), NOTHING) == command_result(plain_words)


def command_result(stdout: str) -> CommandResult:
    return CommandResult(
        stdout=stdout, stderr="", exit_code=0, duration_ms=1, stdout_bytes=1, stderr_bytes=0, is_output_truncated=True
    )


@pytest.mark.parametrize(
    "redactor", [PATTERN_REDACTOR, Redactor(["correct-horse-battery"])], ids=["nothing known", "known"]
)
def test_other_output_comes_at_once_and_as_it_is(redactor: Redactor) -> None:
    given: list[bytes] = []
    stream = RedactedStream(lambda _, piece: given.append(piece), lambda: redactor)
    pieces = [b".", b"F..", b"caf\xc3", b"\xa9", b"\x00\xff", b"x" * 70_000, b"done\n", b"1% "]
    for piece in pieces:
        stream("stdout", piece)
    assert given == pieces
