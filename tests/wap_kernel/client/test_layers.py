"""Commands on layers, through a server and without one: their effect, what was left, what writes directly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.layer_conflicts import change_meanwhile
from tests.support.provider_workspace import skip_unless_works
from tests.support.server_processes import TOKEN, Place
from wap_kernel.client.embedded_backend import EmbeddedBackend
from wap_kernel.client.server_backend import ServerBackend
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import InvalidArgument

CONFIGURATION = 'c.WapExtension.provider = "bubblewrap"\n'


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    skip_unless_works("bubblewrap")
    place = Place(tmp_path_factory.mktemp("layered"))
    (place.folder / "config" / "jupyter_server_config.py").write_text(CONFIGURATION)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.environment.items():
            if name == "HOME" or name.startswith("JUPYTER_"):
                patch.setenv(name, value)
        yield place


@pytest.fixture(scope="module", params=["server", "process"])
def backend(request: pytest.FixtureRequest, layered: Place) -> Iterator[ServerBackend | EmbeddedBackend]:
    if request.param == "process":
        engine = EmbeddedBackend(str(layered.root))
        yield engine
        engine.close()
        return
    with layered.server() as started:
        server = ServerBackend(started.url, TOKEN)
        yield server
        server.close()


@pytest.fixture
def client(backend: ServerBackend | EmbeddedBackend) -> WorkspaceClient:
    return WorkspaceClient(backend)


@pytest.fixture
def root(layered: Place) -> Path:
    return layered.root


def test_the_workspace_says_where_changes_go(client: WorkspaceClient) -> None:
    assert client.overview().data["workspace"]["isolation"] == "layer"
    assert client.policy().data["isolation"] == "layer"


def test_a_person_sees_the_effect_and_yes_applies_exactly_that(client: WorkspaceClient, root: Path) -> None:
    (root / "data").mkdir(exist_ok=True)
    (root / "data" / "a.csv").write_text("1\n")
    asked = client.sh("rm -r data; echo made > new.txt")
    assert asked.pending is not None
    effect = asked.pending["effect"]
    assert (effect["exitCode"], effect["counts"]) == (0, {"created": 1, "deleted": 2})
    assert {(one["path"], one["change"]) for one in effect["changes"]} == {
        *(("data", "deleted"), ("data/a.csv", "deleted"), ("new.txt", "created"))
    }
    assert (root / "data" / "a.csv").exists() and not (root / "new.txt").exists()
    assert "deletes 1 file and 1 folder, creates 1 file" in repr(asked)
    done = client.approve()
    assert done.ok and not (root / "data").exists() and (root / "new.txt").read_text() == "made\n"
    assert client.revert().ok
    assert (root / "data" / "a.csv").read_text() == "1\n" and not (root / "new.txt").exists()


def test_a_dry_run_executes_commands(client: WorkspaceClient, root: Path) -> None:
    run = client.sh("echo x > dry.txt", dry_run=True)
    assert run.events[0]["changes"] == [{"path": "dry.txt", "change": "created"}]
    assert "creates dry.txt" in repr(run) and not (root / "dry.txt").exists()


def test_what_was_left_is_applied_and_taken_back(client: WorkspaceClient, root: Path) -> None:
    left = change_meanwhile(client, root, "one.txt", "two.txt")
    assert left.events[0]["conflicts"] == ["one.txt", "two.txt"]
    assert (root / "one.txt").read_text() == "person\n"
    taken = client.apply(paths=["./one.txt"])
    assert taken.events[0]["applied"] == ["one.txt"] and taken.events[0]["run"] == left.run_id
    assert [(root / name).read_text() for name in ("one.txt", "two.txt")] == ["command\n", "person\n"]
    assert client.revert(taken.run_id).ok and (root / "one.txt").read_text() == "person\n"
    none = client.apply(left.run_id, ["three.txt"])
    assert none.problems[0]["code"] == "NOT_FOUND"
    assert client.apply(left.run_id, [str(root / "two.txt")]).ok and (root / "two.txt").read_text() == "command\n"


def test_a_shared_command_writes_directly(client: WorkspaceClient, root: Path) -> None:
    run = client.sh("echo x > direct.txt", isolation="shared")
    assert run.events[0]["isolation"] == "shared" and (root / "direct.txt").exists()
    assert "A revert does not undo it" in repr(run)
    with pytest.raises(InvalidArgument, match="writes into the workspace directly"):
        client.sh("true", isolation="shared", atomic=True)


def test_a_single_call_answers_its_run(client: WorkspaceClient, root: Path) -> None:
    backend = client._backend
    call = backend.call("executeCommand", {"command": "echo x > called.txt"})
    assert client.changes(call["runId"])["changes"][0]["path"] == "called.txt"
    assert client.revert(call["runId"]).ok and not (root / "called.txt").exists()
    assert "runId" not in backend.call("executeCommand", {"command": "true"}), "which changed nothing"
    shared = backend.call("executeCommand", {"command": "true", "isolation": "shared"})
    assert shared["isolation"] == "shared" and "runId" not in shared
