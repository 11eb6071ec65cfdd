"""The changes of a command on a layer are the same whichever provider runs it, and the guards hold on layers too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.change_workspace import read_tree
from tests.support.layer_cases import CASES, MOVES, fill
from tests.support.layer_workspace import describe
from tests.support.provider_workspace import CONFINING, Scene, cancelling, skip_unless_works
from wap_kernel.model.changes import Change, FileImage
from wap_kernel.model.command import CommandOutcome

ALONE = "the mode of the workspace"
"""The script that changes the workspace itself, and so has a layer of its own."""
SCRIPTS = {name: script for name, (script, _) in CASES.items() if name != ALONE}
SCRIPTS |= {f"a folder moves: {name}": script for name, (script, _) in MOVES.items()}
EXPECTED = {name: changes for name, (_, changes) in CASES.items()}
RENAME = "python3 -c 'import os, sys; os.rename(*sys.argv[1:])'"


@pytest.fixture(scope="module", params=CONFINING)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    skip_unless_works(request.param)
    base = tmp_path_factory.mktemp("layered")
    folder = base / "ws"
    folder.mkdir()
    fill(folder)
    with closing(Scene(request.param, folder, state=base / "state")) as scene:
        if scene.provider.layers is None:
            pytest.skip("no layer can be mounted here")
        yield scene


FOLDERS = {name: f"case{number}" for number, name in enumerate(SCRIPTS)}


@pytest.fixture(scope="module", params=CONFINING)
def batch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[CommandOutcome, list[Change]]]]:
    """Run scripts on one layer, as in a batch, each in a folder of its own: to start a sandbox takes far longer."""
    skip_unless_works(request.param)
    base = tmp_path_factory.mktemp("batch")
    for folder in FOLDERS.values():
        fill(base / "ws" / folder)
    with closing(Scene(request.param, base / "ws", state=base / "state")) as scene:
        if scene.provider.layers is None:
            pytest.skip("no layer can be mounted here")
        layer = scene.layers.create()
        layer.hold()

        def run(name: str) -> tuple[CommandOutcome, list[Change]]:
            """Return the outcome of a script, and what it changed in its folder."""
            prefix = f"{FOLDERS[name]}/"
            outcome = scene.run(SCRIPTS[name], cwd=FOLDERS[name], layer=layer)
            return outcome, [
                replace(
                    change,
                    path=change.path.removeprefix(prefix),
                    source=change.source and change.source.removeprefix(prefix),
                )
                for change in layer.read_changes()
                if change.path.startswith(prefix)
            ]

        yield run
        layer.release()
        layer.discard()
        fill(base / "as before")
        for folder in FOLDERS.values():
            assert read_tree(base / "ws" / folder) == read_tree(base / "as before")


def picture(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """The changes without inodes and times."""

    def shape(image: FileImage) -> tuple[object, ...]:
        return (image.kind, image.mode, image.size, image.target)

    return sorted(
        (change.path, change.kind.value, change.source or "", shape(change.before), shape(change.after))
        for change in changes
    )


@pytest.fixture(scope="module")
def reference() -> dict[str, list[tuple[object, ...]]]:
    """What the first provider gave."""
    return {}


@pytest.mark.parametrize("name", SCRIPTS)
def test_changes(
    batch: Callable[[str], tuple[CommandOutcome, list[Change]]],
    reference: dict[str, list[tuple[object, ...]]],
    name: str,
) -> None:
    outcome, changes = batch(name)
    check_changes(outcome, changes, reference, name)


def test_a_change_of_the_workspace_itself(scene: Scene, reference: dict[str, list[tuple[object, ...]]]) -> None:
    outcome, changes = scene.run_on_layer(CASES[ALONE][0])
    check_changes(outcome, changes, reference, ALONE)


def check_changes(
    outcome: CommandOutcome, changes: Iterable[Change], reference: dict[str, list[tuple[object, ...]]], name: str
) -> None:
    assert outcome.exit_code == 0, outcome.stderr
    if name in EXPECTED:
        assert sorted(describe(changes)) == sorted(EXPECTED[name])
    found = picture(changes)
    assert found == reference.setdefault(name, found)


def test_the_workspace_is_as_before(scene: Scene, tmp_path: Path) -> None:
    """After the script above; `batch` compares the folders of the others."""
    fill(tmp_path / "plain")
    names = [sorted(os.listdir(folder)) for folder in (scene.folder, tmp_path / "plain")]
    assert names[0] == names[1]
    assert (scene.folder / "file").read_text() == "content\n"


GUARDS = {"hidden": ("a/one", "z"), "read_only": ("file", "a/b"), "pinned": ("a",)}
ATTEMPTS = {
    "reading": ("cat a/one; cat z/*; cat /workspace/a/one", []),
    "writing": ("echo x > a/one; echo x > file; echo x > a/b/new; echo x > z/new", []),
    "removing": ("rm -rf a/one file a/b z", []),
    "moving": ("; ".join(f"{RENAME} {names}" for names in ("a x", "a/b x", "file x", "z x", "other file")), []),
    "permissions": ("chmod 777 file a/one a/b z", []),
    "beside them": ("echo x > a/new; echo x > new; rm other", ["created a/new", "created new", "deleted other"]),
    "at the other name": ("cd /workspace; rm -rf a/b file; echo x > a/new", ["created a/new"]),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_guards_on_a_layer(scene: Scene, name: str) -> None:
    script, expected = ATTEMPTS[name]
    outcome, changes = scene.run_on_layer(f"{{ {script}; }} 2>/dev/null; true", **GUARDS)
    assert outcome.stdout == ""
    assert describe(changes) == expected


def test_nothing_can_be_written_where_policy_only_lets_read(scene: Scene) -> None:
    outcome, changes = scene.run_on_layer("touch new a/new; rm -f file; cat file; cat a/one", read_only=(".",))
    assert (outcome.stdout, describe(changes)) == ("content\n1\n", [])


def test_a_batch_shares_its_layer(scene: Scene) -> None:
    layer = scene.layers.create()
    layer.hold()
    assert scene.run("echo one > new", layer=layer).exit_code == 0
    layer.files.replace("written", b"by a file tool\n")
    outcome = scene.run("cat new written; rm written; cat a/one", layer=layer, hidden=("a/one",))
    assert outcome.stdout == "one\nby a file tool\n"
    layer.release()
    assert describe(layer.read_changes()) == ["created new"]
    layer.discard()


def test_a_cancelled_command_leaves_what_it_wrote(scene: Scene) -> None:
    on_chunk, cancel = cancelling()
    layer = scene.layers.create()
    command = "echo x > new; echo ready; while :; do echo y >> more; sleep 0.01; done"
    outcome = scene.run(command, layer=layer, on_chunk=on_chunk, cancel=cancel)
    assert outcome.cancelled
    changes = describe(layer.read_changes())
    assert "created new" in changes
    assert describe(layer.read_changes()) == changes, "nothing writes any more"
    layer.discard()
