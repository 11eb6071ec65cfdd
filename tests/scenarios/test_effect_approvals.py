"""A person approves an effect and gets that one, whatever the agent does meanwhile; and can take everything back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_server import ORDINARY, USERS, Agent, AgentServer, give, open_place
from wap_kernel.model.limits import MAX_COPIED_FILE_BYTES

IDENTITY = "git -c user.name=a -c user.email=a@b"


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Iterator[AgentServer]:
    with open_place(request.param) as place:
        for name in ("data/old", "thesis/chapter", "stuff/settings.json"):
            (place.root / name).parent.mkdir()
            (place.root / name).write_text("the person's")
        if place.user == "ordinary":
            give(place.home)
        yield place


def ask(agent: Agent, *lines: str, **more: Any) -> dict[str, Any]:
    message = agent.start(*({"type": "shell", "command": line} for line in lines), **more)
    assert message["status"] == "awaiting_approval", message
    return message


def read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def test_a_folder_that_an_agent_moves_into_a_deleted_one_is_asked_about(place: AgentServer) -> None:
    with place.start() as agent:
        message = ask(agent, "rm -r data")
        assert agent.run("mv thesis data/").status == 200
        again = agent.decide(message)
        assert again["status"] == "awaiting_approval", again
        assert "data/thesis/chapter" in str(again["pendingApproval"]["effect"])
        assert read(place.root / "data/thesis/chapter") == "the person's"
        assert agent.decide(again, "denied")["status"] == "completed"
        assert read(place.root / "data/thesis/chapter") == "the person's"


def test_a_moved_folder_is_the_one_that_was_shown(place: AgentServer) -> None:
    with place.start() as agent:
        message = ask(agent, "mv stuff .vscode")
        assert agent.run("echo evil > stuff/tasks.json").status == 200
        again = agent.decide(message)
        assert again["status"] == "awaiting_approval", again
        assert not (place.root / ".vscode").exists()


def test_a_later_step_of_a_batch_changes_nothing_that_was_approved(place: AgentServer) -> None:
    with place.start() as agent:
        swap = "echo b > .envrc; touch -r t .envrc"  # the same size and time
        first = ask(agent, "echo a > .envrc; touch -r .envrc t", "echo x > beside", swap, atomic=True)
        again = agent.decide(first)
        assert again["status"] == "awaiting_approval", again
        assert again["pendingApproval"]["command"] == swap  # not the step that left it alone
        assert "+b" in str(again["pendingApproval"]["effect"])
        assert agent.decide(again)["status"] == "completed"
        assert read(place.root / ".envrc") == "b\n"


def test_the_effect_of_a_whole_atomic_run_is_asked_about(place: AgentServer) -> None:
    """File operations that each need no approval had any effect together, after the last command of the run."""
    (place.root / ".cws-policy.json").write_text(json.dumps({"effects": {"maxDeletions": 1}}))
    files = [place.root / name for name in ("data/old", "thesis/chapter")]
    deletions = [{"type": "deleteFile", "path": str(path.relative_to(place.root))} for path in files]
    obeyed = {"type": "createFile", "path": ".vscode/tasks.json", "content": "{}"}
    if place.user == "ordinary":
        give(place.home)
    with place.start() as agent:
        asked = agent.start({"type": "shell", "command": "echo x > made"}, *deletions, atomic=True)
        approval = asked["pendingApproval"]
        assert (asked["status"], approval["rule"]) == ("awaiting_approval", "effects.maxDeletions"), asked
        assert approval["reason"].startswith("The run deletes 2 files")
        assert approval["effect"]["counts"] == {"created": 1, "deleted": 2}
        assert all(map(read, files)) and not (place.root / "made").exists()
        assert agent.decide(asked, "denied")["status"] == "error"
        assert all(map(read, files)) and not (place.root / "made").exists()

        asked = agent.start(*deletions, atomic=True)
        files[0].write_text("written after the approval was shown")
        again = agent.decide(asked)
        assert again["status"] in ("awaiting_approval", "error"), again
        assert all(map(read, files))

        asked = agent.start(obeyed, deletions[0], atomic=True)
        assert asked["pendingApproval"]["rule"] == "effects.obeyedFiles"
        assert agent.decide(asked)["status"] == "completed"  # one approval is enough
        assert read(place.root / ".vscode/tasks.json") == "{}" and read(files[0]) is None
        asked = agent.start(deletions[1], {"type": "deleteFile", "path": "stuff/settings.json"}, atomic=True)
        assert agent.decide(asked)["status"] == "completed"
        assert read(files[1]) is None


def test_a_checkout_has_the_effect_that_was_shown(place: AgentServer) -> None:
    plant = (
        "t=$(mktemp -d); export GIT_INDEX_FILE=$t/i; b=$(echo {word} | git hash-object -w --stdin); "
        "git update-index --add --cacheinfo 100644,$b,.envrc; "
        f"git update-ref refs/heads/{{branch}} $({IDENTITY} commit-tree -m x $(git write-tree))"
    )
    with place.start() as agent:
        agent.run(f"git init -q .; {IDENTITY} commit -q --allow-empty -m x")
        for word in ("good", "evil"):
            assert agent.run(plant.format(word=word, branch=word)).body["exitCode"] == 0
        refusal = agent._send("POST", "wap/workspace/git", {"action": "checkout", "branch": "good"})
        run = refusal.body["details"]["runId"]
        _, message = agent.server.request("GET", f"wap/runs/{run}")
        assert "+good" in str(message["pendingApproval"]["effect"])
        agent.run("git update-ref refs/heads/good refs/heads/evil")
        again = agent.decide(message)
        assert again["status"] == "awaiting_approval", again
        assert "+evil" in str(again["pendingApproval"]["effect"])
        assert read(place.root / ".envrc") is None
        assert agent.decide(again)["status"] == "completed"
        assert read(place.root / ".envrc") == "evil\n"
    assert not list(place.data.glob("wap/*/layers/layer_*"))


def test_a_second_name_does_not_change_what_was_approved(place: AgentServer) -> None:
    with place.start() as agent:
        assert agent.decide(ask(agent, "echo ok > x; ln x .envrc"))["status"] == "completed"
        assert agent.call("writeFile", path="x", content="evil", mode="append").status == 200
        agent.run("echo evil >> x; chmod 755 x")
        assert read(place.root / ".envrc") == "ok\n"
        assert "evil" in (read(place.root / "x") or "")


def test_only_a_person_decides_and_only_once(place: AgentServer) -> None:
    with place.start() as agent:
        message = ask(agent, "rm -r data")
        path = f"wap/runs/{message['runId']}"
        body = {"approvalId": message["pendingApproval"]["approvalId"], "decision": "approved"}
        assert agent._send("POST", f"{path}/decision", body).status == 403
        assert agent._send("POST", f"{path}/apply", {}).status == 403
        other = Agent(agent.server)
        assert other._send("POST", f"{path}/decision", body).status == 403
    with place.start() as agent:  # the layer waits through a restart
        status, decided = agent.server.request("POST", f"{path}/decision?wait=60", json.dumps(body))
        assert (status, decided["status"], decided["events"][-1].get("conflicts")) == (200, "completed", None), decided
        assert not (place.root / "data").exists()
        status, answer = agent.server.request("POST", f"{path}/decision", json.dumps(body))
        assert (status, answer["code"]) == (409, "CONFLICT")
        message = ask(agent, "rm -r thesis")
        agent.decide(message, "denied")
        body["approvalId"] = message["pendingApproval"]["approvalId"]
        assert agent.server.request("POST", f"wap/runs/{message['runId']}/decision", json.dumps(body))[0] == 409
        agent.server.request("POST", f"wap/runs/{message['runId']}/apply?wait=60", "{}")
        assert read(place.root / "thesis/chapter") == "the person's"


def test_a_folder_that_the_person_moves_into_a_deleted_one_stays(place: AgentServer) -> None:
    """Its files have not changed, so only the folder shows that it came while the command ran."""
    with place.start() as agent:
        (place.root / "go").touch()
        line = "python3 -c \"import shutil; shutil.rmtree('data')\"; until [ -s go ]; do sleep 0.02; done"
        answers: list[Any] = []
        command = threading.Thread(target=lambda: answers.append(agent.run(line)))
        command.start()
        poll = threading.Event()
        while not list(place.data.glob("wap/*/layers/*/upper/data")):
            poll.wait(0.02)
        status, _ = agent.server.request("PATCH", "api/contents/thesis", json.dumps({"path": "data/thesis"}))
        assert status == 200
        (place.root / "go").write_text("now")
        command.join()
        assert "data/thesis" in answers[0].body["conflicts"]
        assert read(place.root / "data/thesis/chapter") == "the person's"


def describe(root: Path) -> dict[str, tuple[int, str | bytes]]:
    found: dict[str, tuple[int, str | bytes]] = {}
    for path in (root, *root.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if stat.S_ISREG(mode) else ""
        found[str(path.relative_to(root))] = (mode, content)
    return found


CHANGES = (
    "chmod 777 . data data/old thesis/chapter",
    "mv data d2; mkdir data; echo new > data/old; ln -s /etc data/link",
    "mv thesis t2; echo file > thesis; rm stuff/settings.json; rmdir stuff",
    "ln thesis/chapter second; echo more >> thesis/chapter; mkdir -p a/b/c; touch a/b/c/d",
    "git init -q repository; cd repository; echo 1 > f; git add f; " + f"{IDENTITY} commit -qm 1",
    "echo x > \"$(printf 'new\\nline')\"; mv thesis \"$(printf 'a\\033b')\"",
)


@pytest.mark.parametrize("line", CHANGES)
def test_a_revert_restores_everything_and_says_so(place: AgentServer, line: str) -> None:
    """Finding 2: the mode of the root was neither undone nor named."""
    before = describe(place.root)
    with place.start() as agent:
        done = agent.run(line)
        assert (done.status, done.body.get("conflicts"), done.body.get("refusedChanges")) == (200, None, None), done
        assert describe(place.root) != before
        path = f"wap/runs/{done.body['runId']}/revert?wait=60"
        status, reverted = agent.server.request("POST", path, "{}")
        assert (status, reverted["status"]) == (201, "completed"), reverted
        event = reverted["events"][-1]
        assert (event["success"], event.get("left")) == (True, None), event
        assert describe(place.root) == before
        if line.startswith("chmod"):
            assert {".", "data", "data/old", "thesis/chapter"} <= set(event["restored"])


def test_a_process_that_a_command_leaves_is_gone(place: AgentServer) -> None:
    with place.start() as agent:
        mark = f"wap-{os.getpid()}-left"
        line = f"setsid nohup bash -c 'exec -a {mark} sleep 1000' > /dev/null 2>&1 & disown; echo {mark} > a"
        agent.run(line)
        listed = subprocess.run(["pgrep", "-f", f"^{mark}"], capture_output=True, text=True, check=False).stdout
        assert listed == ""
        assert not list(place.data.glob("wap/*/layers/layer_*"))


def test_a_folder_that_cannot_be_renamed_is_explained(place: AgentServer) -> None:
    with place.start() as agent:
        assert agent.run(f"git init -q; git add -A; {IDENTITY} commit -qm x").status == 200
        answer = agent.run("git mv thesis book")
        assert (answer.body["exitCode"] == 0) is (place.user == "own" and os.getuid() == 0), answer
        assert ("cannot be renamed on this layer" in answer.body["stderr"]) is (answer.body["exitCode"] != 0), answer
        assert agent.run("mkdir notes; git mv data/old notes/").body["exitCode"] == 0
        moved = agent.run("mv stuff things").body
        assert (moved["exitCode"], moved["stderr"]) == (0, "") and read(place.root / "things/settings.json")


@pytest.mark.parametrize("user", USERS)
def test_no_agent_loses_for_good_what_undo_cannot_keep(user: str) -> None:
    """The state lies on another filesystem, so that undo copies, and copies no large file."""
    with tempfile.TemporaryDirectory(prefix="wap-far-", dir="/dev/shm") as state, open_place(user) as place:
        if os.stat(place.root).st_dev == os.stat(state).st_dev:
            pytest.skip("there is no other filesystem here")
        if user == "ordinary":
            os.chown(state, ORDINARY, ORDINARY)
        settings = place.folder / "config/jupyter_server_config.py"
        settings.write_text(f"{settings.read_text()}c.WapExtension.state_dir = {state!r}\n")
        big, folder = place.root / "big", place.root / "folder"
        folder.mkdir()
        for path in (big, folder / "large"):
            with path.open("wb") as file:
                file.truncate(MAX_COPIED_FILE_BYTES + 1)
        (folder / "small").write_text("x")
        (place.root / "other").write_text("x")
        with place.start() as agent:
            for tool, parameters in (
                ("deleteFile", {"path": "big"}),
                ("deleteFile", {"path": "folder", "recursive": True}),
                ("writeFile", {"path": "big", "content": "x", "mode": "overwrite"}),
                ("moveFile", {"source": "other", "destination": "big", "overwrite": True}),
                ("copyFile", {"source": "other", "destination": "big", "overwrite": True}),
                ("executeCommand", {"command": "rm big; mv folder/large x"}),
            ):
                answer = agent.call(tool, **parameters)
                assert answer.body["details"]["rule"] == "effects.unkept", (tool, answer)
                assert answer.body["details"]["approvalId"], (tool, answer)
            asked = agent.start({"type": "deleteFile", "path": "big"}, atomic=True)
            assert asked["pendingApproval"]["rule"] == "effects.unkept", asked
            assert agent.decide(asked, "denied")["status"] == "error"
            assert big.stat().st_size > MAX_COPIED_FILE_BYTES and (folder / "large").exists()
            asked = agent.start({"type": "deleteFile", "path": "big"}, atomic=True)
            assert agent.decide(asked)["status"] == "completed" and not big.exists(), "one approval is enough"
            asked = agent.start({"type": "deleteFile", "path": "folder/large"})
            assert "cannot bring back" in asked["pendingApproval"]["reason"]
            assert agent.decide(asked)["events"][-1]["success"] and not (folder / "large").exists()
