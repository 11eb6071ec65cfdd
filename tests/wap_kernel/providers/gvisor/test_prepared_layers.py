"""gVisor on layers: a sandbox is prepared on a layer of its own, used once, and never keeps what others changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.gvisor_sandboxes import GUARDED, of_sandboxes, providing, run, script, wait_until
from wap_kernel.model.changes import ChangeSet
from wap_kernel.model.command import CancelToken, CommandOutcome, Confinement
from wap_kernel.model.errors import Conflict, ProviderUnavailable
from wap_kernel.providers.gvisor.provider import GvisorProvider
from wap_kernel.providers.layers.layer import Layer, LayerStore
from wap_kernel.providers.mounts import Guards
from wap_kernel.providers.process.environment import GIT_ATTRIBUTES


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    return tmp_path / "layers"


@pytest.fixture
def layered(workspace: Path, layers: Path, started: list[str]) -> Iterator[GvisorProvider]:
    with providing(workspace, layers=layers) as provider:
        yield provider


def store(provider: GvisorProvider) -> LayerStore:
    assert provider.layers is not None
    return provider.layers


def run_on(
    provider: GvisorProvider, layer: Layer, command: str, confinement: Confinement = GUARDED
) -> tuple[CommandOutcome, list[tuple[str, str]]]:
    outcome = run(provider, command, confinement=replace(confinement, layer=layer))
    return outcome, listed(layer.read_changes())


def listed(changes: ChangeSet) -> list[tuple[str, str]]:
    return [(change.kind.value, change.path) for change in changes]


def prepare(provider: GvisorProvider) -> None:
    """Run a command on a layer, and wait for the sandbox that is prepared afterwards."""
    layer = store(provider).create()
    run_on(provider, layer, "true")
    layer.discard()
    wait_until(lambda: all(idle.ready.is_set() for idle in provider._pool._idle_sandboxes))


def test_what_a_command_changes_is_in_its_layer(layered: GvisorProvider, workspace: Path) -> None:
    before = sorted(workspace.rglob("*"))
    layer = store(layered).create()
    outcome, changes = run_on(layered, layer, "echo a > a; rm -rf keys; cat .env a /workspace/a; echo i > .git/index")
    assert outcome.stdout == "a\na\n"
    assert changes == [("created", ".git/index"), ("created", "a")]
    assert sorted(workspace.rglob("*")) == before
    layer.discard()
    assert not os.path.exists(layer.folder)


def test_every_command_has_a_fresh_layer_and_a_fresh_sandbox(
    layered: GvisorProvider, started: list[str], workspace: Path
) -> None:
    for number in range(3):
        layer = store(layered).create()
        outcome, changes = run_on(layered, layer, "echo * /tmp/made*; touch made /tmp/made")
        assert outcome.stdout == "keys /tmp/made*\n"
        assert changes == [("created", "made")]
        layer.discard()
        wait_until(lambda wanted=number + 2: len(started) == wanted)  # type: ignore[misc]
    assert len(set(started)) == 4


def test_the_layer_of_a_prepared_sandbox_begins_when_a_command_does(
    layered: GvisorProvider, started: list[str], workspace: Path
) -> None:
    prepare(layered)
    (workspace / "saved meanwhile").write_text("by a person")
    (workspace / "keys").chmod(0o755)
    layer = store(layered).create()
    assert layer.began_ns >= (workspace / "saved meanwhile").stat().st_ctime_ns
    assert [found.began_ns for found in store(layered).list()] == [layer.began_ns]
    assert run_on(layered, layer, "cat saved*")[0].stdout == "by a person"
    assert len(started) == 2, "it was prepared"


def test_what_a_person_changed_since_a_sandbox_was_prepared_is_seen(layered: GvisorProvider, workspace: Path) -> None:
    (workspace / "sub/deep").mkdir(parents=True)
    for name in ("old", "sub/old", "sub/deep/old", "gone"):
        (workspace / name).write_text("old")
    prepare(layered)
    (workspace / "gone").unlink()
    (workspace / "sub/deep").rename(workspace / "deep")
    for name in ("old", "new", "sub/old", "sub/new", ".git/new"):
        (workspace / name).write_text("new")
    layer = store(layered).create()
    outcome, changes = run_on(layered, layer, "echo * sub/* deep/* .git/*; cat old new sub/* deep/* .git/new; rm sub/*")
    assert outcome.stdout == "deep keys new old sub sub/new sub/old deep/old .git/config .git/new\nnewnewnewnewoldnew"
    assert changes == [("deleted", "sub/new"), ("deleted", "sub/old")]


@pytest.mark.parametrize("name", [".env", ".git/config"])
def test_a_guarded_file_that_was_replaced_since_is_guarded(
    layered: GvisorProvider, workspace: Path, started: list[str], name: str
) -> None:
    prepare(layered)
    (workspace / "new").write_text("NEW SECRET")
    (workspace / "new").rename(workspace / name)
    layer = store(layered).create()
    outcome, changes = run_on(layered, layer, f"cat {name}; echo x > {name}; rm -f {name}")
    assert outcome.stdout == ("" if name == ".env" else "NEW SECRET")
    assert changes == []
    assert len(started) >= 3, "the prepared one was of no use"


def test_permissions_of_the_workspace_that_changed_since(layered: GvisorProvider, workspace: Path) -> None:
    prepare(layered)
    workspace.chmod(0o701)
    layer = store(layered).create()
    outcome, changes = run_on(layered, layer, "python3 -c 'import os; print(oct(os.stat(\".\").st_mode))'")
    assert outcome.stdout == "0o40701\n"
    assert changes == []


def test_a_command_with_other_guards_has_the_same_layer(layered: GvisorProvider, started: list[str]) -> None:
    prepare(layered)
    layer = store(layered).create()
    outcome, changes = run_on(layered, layer, "cat .env; rm .env", Confinement(hidden=("keys",)))
    assert outcome.stdout == "SECRET"
    assert changes == [("deleted", ".env")]


def test_a_layer_that_somebody_removed_is_not_handed_out(layered: GvisorProvider, layers: Path) -> None:
    prepare(layered)
    (prepared,) = layers.iterdir()
    prepared.rename(layers.parent / "away")
    layer = store(layered).create()
    assert layer.id != prepared.name
    assert run_on(layered, layer, "touch made")[1] == [("created", "made")]


def test_a_layer_that_no_command_ran_on_ends_its_sandbox(layered: GvisorProvider, started: list[str]) -> None:
    prepare(layered)
    store(layered).create().discard()
    assert not of_sandboxes(started[-1])
    assert layered._pool._idle_sandboxes == []


def test_commands_at_once_have_layers_of_their_own(layered: GvisorProvider) -> None:
    prepare(layered)

    def act(name: str) -> list[tuple[str, str]]:
        layer = store(layered).create()
        try:
            return run_on(layered, layer, f"touch {name}")[1]
        finally:
            layer.discard()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(act, "abcd")) == [[("created", name)] for name in "abcd"]


def test_a_race_runs_nothing_and_leaves_the_layer_to_the_next_try(layered: GvisorProvider, workspace: Path) -> None:
    layer = store(layered).create()
    plan, layered._layout.guards = layered._layout.guards, lambda *_: planned  # type: ignore[method-assign]
    planned = Guards((("hidden file", "vanished"),))
    with pytest.raises(Conflict, match="were changed"):
        run_on(layered, layer, "touch begun")
    layered._layout.guards = plan  # type: ignore[method-assign]
    assert run_on(layered, layer, "touch again")[1] == [("created", "again")]


# -- a batch: one layer for several commands and the file tools


def test_commands_of_a_batch_share_a_layer_and_a_sandbox(
    layered: GvisorProvider, started: list[str], workspace: Path
) -> None:
    prepare(layered)
    layer = store(layered).create()
    layer.hold()
    assert not of_sandboxes(started[-1]), "the one that was prepared has the layer mounted elsewhere"
    before = len(started)
    run_on(layered, layer, "echo one > file; mkdir sub")
    layer.files.replace("sub/written", b"by a file tool")
    with layer.files.open("file") as file:
        assert file.read() == b"one\n"
    outcome, changes = run_on(layered, layer, "cat file sub/written; rm -r sub; touch /tmp/left")
    assert outcome.stdout == "one\nby a file tool"
    assert changes == [("created", "file")]
    assert len(started) == before + 1
    run_on(layered, layer, "cat /tmp/left && touch found")
    assert not (workspace / "file").exists()
    layer.release()
    assert not any(of_sandboxes(folder) for folder in started)
    assert listed(layer.read_changes()) == [("created", "file")]
    layer.discard()


def test_guards_of_a_batch_are_where_the_batch_has_them(layered: GvisorProvider) -> None:
    """A file tool replaces a guarded file in the layer; the next command is kept from the new one."""
    layer = store(layered).create()
    layer.hold()
    run_on(layered, layer, "true")
    layer.files.replace(".env", b"NEW SECRET")
    assert run_on(layered, layer, "cat .env; rm -f .env; echo done")[0].stdout == "done\n"
    layer.discard()


# -- the end


def test_nothing_is_left_when_the_provider_closes(workspace: Path, layers: Path, started: list[str]) -> None:
    with providing(workspace, layers=layers) as provider:
        prepare(provider)
        assert len(os.listdir(layers)) == 1
    assert os.listdir(layers) == []
    assert not any(of_sandboxes(folder) for folder in started)


def test_a_prepared_sandbox_that_nobody_needs_is_ended_with_its_layer(workspace: Path, layers: Path) -> None:
    with providing(workspace, layers=layers, idle=0.01) as provider:
        layer = store(provider).create()
        run_on(provider, layer, "true")
        layer.discard()
        wait_until(lambda: os.listdir(layers) == [])


def test_a_cancelled_command_leaves_what_it_wrote_in_its_layer(layered: GvisorProvider) -> None:
    layer = store(layered).create()
    cancel = CancelToken()
    confinement = replace(GUARDED, layer=layer)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run, layered, "touch begun; sleep 1000", confinement=confinement, cancel=cancel)
        wait_until(Path(layer.upper, "begun").exists)
        cancel.request()
        assert running.result().cancelled
    assert listed(layer.read_changes()) == [("created", "begun")]


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.support.gvisor_sandboxes import GUARDED, Command, providing
with providing(Path(sys.argv[1]), layers=Path(sys.argv[1] + "-layers")) as provider:
    for command in ("true", "echo begun; trap '' TERM; setsid sleep 1000 & sleep 1000"):
        confinement = replace(GUARDED, layer=provider.layers.create())
        provider.run(Command(command, 1000, 1000, confinement=confinement),
                     on_chunk=lambda *_: print(provider._folder.path, flush=True))
"""


def test_when_the_server_is_killed_its_sandboxes_end(workspace: Path) -> None:
    with script(KILLED, workspace) as server:
        assert server.stdout is not None
        home = server.stdout.readline().strip()
        assert of_sandboxes(home)
        server.kill()
    wait_until(lambda: not of_sandboxes(home))
    assert str(workspace) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("isolation", ["shared", "layer"])
def test_the_file_of_gits_attributes_may_lie_in_a_folder_that_is_hidden(
    layered: GvisorProvider, workspace: Path, isolation: str
) -> None:
    """The state folder of a workspace that is the home folder lies below the root."""
    (workspace / "keys/attributes").write_text("*.pem -diff\n")
    confinement = replace(GUARDED, git_attributes=str(workspace / "keys/attributes"))
    if isolation == "layer":
        confinement = replace(confinement, layer=store(layered).create())
    outcome = run(layered, f"echo keys/*; cat {GIT_ATTRIBUTES}", confinement=confinement)
    assert outcome.stdout == "keys/*\n*.pem -diff\n"
    (workspace / "keys/attributes").unlink()
    with pytest.raises(ProviderUnavailable, match="attributes for git"):
        run(layered, "true", confinement=replace(confinement, network=True))
