"""The typed API, through a server and without one."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest

from tests.support.server_processes import TOKEN, LiveServer, Place
from wap_kernel import connect
from wap_kernel.client import run_tracker
from wap_kernel.client.backend import Backend, RunUpdate
from wap_kernel.client.run_tracker import RunOptions
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import ApprovalRequired, Conflict, InvalidArgument, NotFound, PermissionDenied, WapError

ASKS = "rm -rf nothing"
LONG = "echo begun; sleep 1000"


@pytest.fixture(autouse=True)
def nothing_waits(place: Place, backend: Backend) -> Iterator[None]:
    (place.root / "src").mkdir(exist_ok=True)
    (place.root / "src" / "a.py").write_text("one\nTwo\nthree\n")
    (place.root / "src" / "b.txt").write_text("two (2)\n")
    _cancel_all(backend)
    yield
    _cancel_all(backend)


def _cancel_all(backend: Backend) -> None:
    for run in backend.runs("awaiting_approval", 100)["runs"]:
        backend.cancel(run["runId"])


def test_looking(client: WorkspaceClient, place: Place) -> None:
    assert set(client.ls("src")) == {"src/a.py", "src/b.txt"}
    assert "src/a.py" in client.ls(depth=2).paths
    assert client.ls("src", recursive=True, exclude=["*.txt"]).paths == ["src/a.py"]
    assert client.ls("src").data["files"][0]["metadata"]["size"] == 14
    read = client.read("src/a.py", lines=(2, None))
    assert (read.text, read.request) == ("Two\nthree\n", {"path": "src/a.py", "first_line": 2})
    assert client.read("src/a.py", lines=(1, 1)).text == "one\n"
    assert client.read("src/a.py").hash.startswith("sha256:")
    overview = client.overview().data
    assert overview["preset"] == "permissive"
    assert overview["workspace"]["root"] == str(place.root)
    assert overview["waiting"] == []
    assert set(client._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert repr(client) == f"<wap: {client.endpoint.name}>"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["src/b.txt"]),
        ({"ignore_case": True}, ["src/a.py", "src/b.txt"]),
        ({"ignore_case": True, "globs": ["*.py"]}, ["src/a.py"]),
        ({"ignore_case": True, "globs": ["src/*.{txt,md}"]}, ["src/b.txt"]),
        ({"ignore_case": True, "globs": ["src/**"]}, ["src/a.py", "src/b.txt"]),
        ({"ignore_case": True, "globs": ["*"]}, ["src/a.py", "src/b.txt"]),
        ({"globs": ["*.py"], "path": "src"}, []),
        ({"globs": ["*.txt"], "path": "src"}, ["src/b.txt"]),
    ],
)
def test_searching(client: WorkspaceClient, options: dict[str, Any], found: list[str]) -> None:
    assert [path for path in client.search("two", **options).paths if path.startswith("src/")] == found


def test_a_text_is_a_text_and_a_pattern_a_pattern(client: WorkspaceClient) -> None:
    assert client.search("TWO (2)", "src", ignore_case=True).paths == ["src/b.txt"]
    assert client.search("^t..$", "src", regex=True, ignore_case=True).paths == ["src/a.py"]
    assert client.search("t.o (2)", "src").paths == []


def test_changing_is_a_run_that_can_be_undone(client: WorkspaceClient, place: Place) -> None:
    path = place.root / "made" / "x.txt"
    path.unlink(missing_ok=True)
    assert client.write("made/x.txt", "one\n").ok
    assert client.write("made/x.txt", "two\n").files == ["made/x.txt"]
    assert client.edit("made/x.txt", "two", "three").ok
    assert path.read_text() == "three\n"
    assert client.changes()["changes"][0]["path"] == "made/x.txt"
    assert client.revert().ok
    assert path.read_text() == "two\n"
    stale = client.read("made/x.txt").hash
    assert client.write("made/x.txt", b"\xff\x00", expected_hash=stale).ok
    assert path.read_bytes() == b"\xff\x00"
    assert not client.delete("made/x.txt", expected_hash=stale).ok
    assert client.delete("made/x.txt", dry_run=True).ok
    assert path.exists()
    assert client.delete("made/x.txt").ok


def test_commands(client: WorkspaceClient) -> None:
    result = client.sh("pwd; echo more >&2; exit 3", timeout=20, cwd="src")
    assert (result.status, result.ok) == ("completed", False)
    assert result.stdout.endswith("/src\n")
    assert client.output("last", "op-1", "stderr") == "more\n"
    large = client.sh("seq 1 300000", timeout=60)
    assert client.output(large.run_id, "op-1").splitlines()[-1] == "300000"


def test_all_that_happens_is_told(client: WorkspaceClient) -> None:
    sent: list[RunUpdate] = []
    result = client.run(
        [{"type": "message", "content": "x"}, {"type": "shell", "command": "echo hi"}], on_update=sent.append
    )
    assert [one.data for one in sent if one.name == "event"] == result.events
    assert "".join(one.data["chunk"] for one in sent if one.name == "output") == "hi\n"
    assert [one.data["status"] for one in sent if one.name == "status"] == ["running", "completed"]
    assert client.last is result


def test_it_is_told_how_many_operations_there_are(client: WorkspaceClient, backend: Backend) -> None:
    """Also of a run that others began, when its question is answered, and of one that undoes another."""
    batch = [{"type": "message", "content": "x"}, {"type": "shell", "command": ASKS, "timeout": 30_000}]
    begun: list[dict[str, Any]] = []

    def told(sent: RunUpdate) -> None:
        if sent.name == "begun":
            begun.append(sent.data)

    mine = client.run(batch, on_update=told)
    client.approve(on_update=told)
    assert begun == [{"runId": mine.run_id, "operations": batch, "total": 2}] * 2
    theirs = WorkspaceClient(backend).run(batch).run_id
    client.show(theirs)
    client.deny(theirs, on_update=told)
    assert begun[2] == {"runId": theirs, "operations": [], "total": 2}
    made = client.write("undone.txt", "x").run_id
    undo = client.revert(made, on_update=told)
    assert begun[3] == {"runId": undo.run_id, "operations": [{"type": "revert", "run": made}], "total": 1}


def test_a_whole_message_is_taken_too(client: WorkspaceClient) -> None:
    operation = {"type": "message", "content": "x"}
    message = {"protocolVersion": "1.0", "operations": [operation], "dryRun": True}
    assert client.run(message).data["dryRun"] is True
    assert client.run(MappingProxyType(message)).ok
    assert client.run((MappingProxyType(operation),)).ok


@pytest.mark.parametrize("wrong", ["ls", b"ls", 3, {"protocolVersion": "1.0"}, {"operations": 3}, {"operations": "x"}])
def test_what_has_no_list_of_operations_is_refused(client: WorkspaceClient, wrong: Any) -> None:
    for ask in (client.run, client.check):
        with pytest.raises(InvalidArgument, match="list"):
            ask(wrong)


def test_the_options_of_one_operation_are_those_of_a_run() -> None:
    taken = list(inspect.signature(WorkspaceClient.run).parameters)
    assert taken[:2] == ["self", "operations"]
    assert set(RunOptions.__annotations__) == set(taken[2:])


def test_what_a_run_was_to_do_is_remembered(client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events do not say what was never run."""
    monkeypatch.setattr(run_tracker, "MAX_TRACKED_RUNS", 2)
    reading = [{"type": "readFile", "path": "none"}, {"type": "readFile", "path": "never"}]
    first = client.run(reading, atomic=True)
    assert repr(client.show()) == repr(first)
    assert "not run read never" in repr(first)
    asked = client.run([{"type": "shell", "command": ASKS}, *reading])
    client.cancel(asked.run_id)
    assert "not run read never" in repr(client.show(first.run_id))
    assert "not run read never" in repr(client.show(asked.run_id))
    client.sh("true")
    assert "never" not in repr(client.show(first.run_id)), "but not for ever"
    assert "not run read never" in repr(client.show(asked.run_id))


def test_one_that_is_not_waited_for(client: WorkspaceClient) -> None:
    begun = client.sh(LONG, wait=False)
    assert begun.status == "running"
    assert client.cancel(begun.run_id[:12]).status == "cancelled"


# -- approvals


def test_what_asks_is_returned_as_it_waits(client: WorkspaceClient) -> None:
    asked = client.run([{"type": "shell", "command": ASKS}, {"type": "message", "content": "after"}])
    assert asked.status == "awaiting_approval"
    assert asked.pending is not None
    assert [run["runId"] for run in client.overview().data["waiting"]] == [asked.run_id]
    sent: list[RunUpdate] = []
    done = client.approve(on_update=sent.append)
    assert (done.run_id, done.ok) == (asked.run_id, True)
    assert [one.data["type"] for one in sent if one.name == "event"][-2:] == ["shell", "message"]
    with pytest.raises(NotFound, match="No run waits"):
        client.approve()
    with pytest.raises(NotFound, match="completed"):
        client.approve(asked.run_id)


def test_approvals_are_named_by_run_or_approval(client: WorkspaceClient) -> None:
    first, second, third = (client.sh(ASKS) for _ in range(3))
    with pytest.raises(InvalidArgument, match="3 runs") as refused:
        client.deny()
    assert first.run_id in refused.value.text
    assert first.pending is not None
    denied = client.deny(first.pending["approvalId"], reason="Not today.")
    assert (denied.run_id, denied.status) == (first.run_id, "completed")
    assert denied.problems[0]["reason"] == "Not today."
    assert client.approve(second.run_id[4:14]).run_id == second.run_id
    with pytest.raises(NotFound):
        client.approve("run_zz")
    assert client.approve(third.run_id).ok


def test_several_questions_are_approved_on_the_way(client: WorkspaceClient) -> None:
    shell = {"type": "shell", "command": ASKS}
    done = client.run([shell, {"type": "message", "content": "x"}, shell], approve=True)
    assert done.ok
    assert [event["type"] for event in done.events].count("approvalRequired") == 2


def test_somebody_else_decides_while_it_waits(client: WorkspaceClient, server: LiveServer) -> None:
    asked: list[RunUpdate] = []

    def decide(sent: RunUpdate) -> None:
        asked.append(sent)
        if sent.data.get("status") == "awaiting_approval":
            threading.Thread(target=_approved_by_another, args=(server, sent.data["runId"])).start()

    assert client.run([{"type": "shell", "command": ASKS}], wait_for_approval=60, on_update=decide).ok
    assert [one.data["status"] for one in asked if one.name == "status"] == [
        "running",
        "awaiting_approval",
        "running",
        "completed",
    ]
    assert client.run([{"type": "shell", "command": ASKS}], wait_for_approval=None, on_update=decide).ok


def _approved_by_another(server: LiveServer, run_id: str) -> None:
    pending = server.request("GET", f"wap/runs/{run_id}")[1]["pendingApproval"]
    body = {"approvalId": pending["approvalId"], "decision": "approved"}
    server.request("POST", f"wap/runs/{run_id}/decision", json.dumps(body))


def test_nobody_decides_in_time(client: WorkspaceClient) -> None:
    assert client.run([{"type": "shell", "command": ASKS}], wait_for_approval=0.2).status == "awaiting_approval"


def test_somebody_cancels_while_it_waits(client: WorkspaceClient, backend: Backend) -> None:
    def cancel(sent: RunUpdate) -> None:
        if sent.data.get("status") == "awaiting_approval":
            threading.Thread(target=backend.cancel, args=(sent.data["runId"],)).start()

    assert (
        client.run([{"type": "shell", "command": ASKS}], wait_for_approval=60, on_update=cancel).status == "cancelled"
    )


def test_what_changes_between_question_and_answer_is_asked_again(client: WorkspaceClient, place: Place) -> None:
    """The person at the keyboard said yes to whatever this run asks."""
    (place.root / "data").mkdir(exist_ok=True)

    def change(sent: RunUpdate) -> None:
        if sent.data.get("status") == "awaiting_approval":
            (place.root / "data" / "new").write_text("x")

    assert client.run([{"type": "shell", "command": "rm -rf data"}], approve=True, on_update=change).ok
    assert not (place.root / "data").exists()


def test_an_agent_can_use_the_client_but_not_decide(server: LiveServer, client: WorkspaceClient) -> None:
    asked = client.sh(ASKS)
    minted = server.request("POST", "wap/tokens", json.dumps({"name": "an agent"}))[1]
    agent = connect(url=server.url, token=minted["token"])
    try:
        assert agent.read("src/a.py").text.startswith("one")
        assert "Nothing confines" in agent.sh("true").problems[0]["error"]
        with pytest.raises(NotFound, match="No run waits"):  # what others ask is not shown to it
            agent.approve()
        with pytest.raises(PermissionDenied, match="person"):
            agent._backend.decide(asked.run_id, "apr_0123456789abcdef", "approved", None, remember=False)
        with pytest.raises(PermissionDenied, match="person"):
            agent.audit()
    finally:
        agent.close()


def test_a_single_call_that_asks_says_where(client: WorkspaceClient, backend: Backend) -> None:
    with pytest.raises(ApprovalRequired) as asked:
        backend.call("executeCommand", {"command": ASKS})
    assert client.approve(asked.value.details["approvalId"]).data["response"]["exitCode"] == 0


def test_a_question_of_somebody_else_is_not_in_the_way(client: WorkspaceClient) -> None:
    theirs = WorkspaceClient(client._backend).sh(ASKS)
    mine = client.sh(ASKS)
    assert client.approve().run_id == mine.run_id
    assert client.deny(theirs.run_id).run_id == theirs.run_id


def test_nobody_agrees_to_what_was_not_shown(client: WorkspaceClient) -> None:
    both = [{"type": "shell", "command": ASKS, "id": "one"}, {"type": "shell", "command": f"{ASKS} ", "id": "two"}]
    first = client.run(both)
    other = WorkspaceClient(client._backend)
    for named in (None, first.run_id, first.run_id[4:10]):
        with pytest.raises(Conflict, match="not been shown"):
            other.approve(named)
    assert other.deny(first.run_id).pending is not None, "and the second question comes"
    with pytest.raises(Conflict, match="not been shown"):
        client.approve(first.run_id)
    assert client.show(first.run_id).pending is not None
    assert client.approve(first.run_id).status == "completed"


# -- which run


def test_runs_by_the_beginning_of_their_id(client: WorkspaceClient) -> None:
    run = client.sh("true").run_id
    assert (
        client.show(run).run_id == client.show().run_id == client.show(run[:14]).run_id == client.show(run[4:12]).run_id
    )
    assert WorkspaceClient(client._backend).show("last").run_id == run
    for change in ("cancel", "apply"):
        with pytest.raises(NotFound, match="No run was started here"):
            getattr(WorkspaceClient(client._backend), change)("last")  # it may be somebody else's
    client.sh("true")
    for none in ("", "run_", "r", run[4:7], "nothing", "run_0123456789abcdef", "../policy"):
        with pytest.raises(NotFound):
            client.show(none)
    assert client.runs(limit=1).data["runs"][0]["runId"] == client.show().run_id
    with pytest.raises(Conflict):
        client.cancel()


def test_the_last_single_call_is_reverted(client: WorkspaceClient, backend: Backend, place: Place) -> None:
    (place.root / "called.txt").write_text("before")
    call = backend.call("writeFile", {"path": "called.txt", "content": "after"})
    waits = WorkspaceClient(backend).sh(ASKS)  # has not ended, so it is not meant
    listed = {run["runId"]: run for run in client.runs()}
    assert listed[call["runId"]]["tool"] == "writeFile" and listed[call["runId"]]["dialect"] == "wap"
    assert "tool" not in listed[waits.run_id]
    undone = client.revert()
    assert undone.data["reverts"] == call["runId"] and (place.root / "called.txt").read_text() == "before"
    assert client.revert().data["reverts"] == undone.run_id, "from then on it is this client's own"
    assert (place.root / "called.txt").read_text() == "after"


def test_policy_audit_and_grants(client: WorkspaceClient) -> None:
    assert "layers" in client.policy().data
    checked = client.check([{"type": "shell", "command": ASKS}])
    assert [verdict["verdict"] for verdict in checked] == ["ask"]
    assert checked.request["operations"] == [{"type": "shell", "command": ASKS}]
    client.sh("true")
    client.sh("true")
    recorded = [record["tool"] for record in client.audit(limit=2)]
    assert len(recorded) == 2 and "shell" in recorded  # what was given up before may be recorded late
    assert [run["runId"] for run in client.runs(limit=1)] == [client.show().run_id] and len(client.runs(limit=1)) == 1
    client.sh("chmod 600 src/a.py")
    assert client.approve(remember=True).ok
    assert client.sh("chmod 600 src/a.py").ok
    (grant,) = client.grants()
    client.revoke(grant["id"])
    assert client.sh("chmod 600 src/a.py").status == "awaiting_approval"


# -- connecting


def test_connecting_to_a_server_that_is_named(server: LiveServer) -> None:
    client = connect(url=server.url, token=TOKEN)
    assert client.read("src/a.py").text.startswith("one")
    assert "src" in repr(client.ls().paths)
    client.close()
    with pytest.raises(WapError, match="Not authenticated"):
        connect(url=server.url, token="wrong")
    with pytest.raises(WapError, match="does not answer"):
        connect(url="http://127.0.0.1:9/")


def test_what_cannot_be_shown_says_why(client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise NotFound("It is gone.", hint="Start it.")

    monkeypatch.setattr(client._backend, "policy", gone)
    assert "It is gone." in client._repr_mimebundle_()["text/plain"]


def test_a_command_of_a_person_has_ten_minutes_unless_the_line_says_otherwise(client: WorkspaceClient) -> None:
    run = client.run([{"type": "shell", "command": "true"}, {"type": "shell", "command": "true", "timeout": 5_000}])
    assert [operation["timeout"] for operation in run.request["operations"]] == [600_000, 5_000]
    ended = client.sh("sleep 60", timeout=1)
    assert '"sh -t SECONDS COMMAND" gives it more time, up to 3600 seconds.' in repr(ended)


def test_a_written_file_that_was_there_is_shown_as_replaced(client: WorkspaceClient) -> None:
    shown = repr(client.write("src/a.py", "one\n"))
    assert "done    write src/a.py (replaced, +0 −2, 4 bytes)" in shown and "| -three" in shown  # noqa: RUF001
    assert "done    create src/new.py (1 byte)" in repr(client.write("src/new.py", "x"))
    assert "deletes 1 file" in repr(client.show(client.delete("src/new.py").run_id))


def test_the_closest_region_of_a_failed_edit_is_shown(client: WorkspaceClient) -> None:
    assert "The closest is at line 3" in repr(client.edit("src/a.py", "threee\n", "four"))
