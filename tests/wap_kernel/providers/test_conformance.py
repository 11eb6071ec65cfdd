"""Every provider answers every case alike, on a layer or not, field by field but for the time, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.command_cases import CASES, Case
from tests.support.provider_workspace import (
    ALL,
    CONFINING,
    LONG,
    MakeScene,
    Scene,
    alive,
    cancelling,
    skip_if_lacking,
    skip_unless_works,
)
from tests.support.time_limits import growing
from wap_kernel.files.interface import FileKind
from wap_kernel.model.command import CancelToken, Command, Stream
from wap_kernel.model.errors import Code, Conflict, WapError
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.providers.process import run, supervisor_handle

Answer = dict[str, object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all providers, so that paths in their answers are the same."""
    folder = tmp_path_factory.mktemp("conformance") / "ws"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[Scene]:
    scene = Scene("local", folder)
    yield scene
    scene.close()


@pytest.fixture(scope="module", params=[*ALL, *(f"{name} on layers" for name in CONFINING)])
def scene(request: pytest.FixtureRequest, folder: Path) -> Iterator[Scene]:
    name, _, layers = request.param.partition(" ")
    skip_unless_works(name)
    state = folder.parent / "state" if layers else None
    scene = Scene(name, folder, state=state, is_layered=bool(layers))
    yield scene
    scene.close()
    assert state is None or os.listdir(scene.layers.folder) == []


@pytest.fixture
def sharing(scene: Scene) -> Scene:
    if scene.is_layered:
        pytest.skip("what a command writes is on its layer, and what others write meanwhile it may not see")
    return scene


@pytest.fixture(scope="module")
def local_answers() -> dict[str, Answer]:
    return {}


@pytest.fixture(scope="module")
def batch_layer(scene: Scene) -> Iterator[Layer | None]:
    """The layer of all cases, as in a batch: a sandbox of its own for each case would take most of the time."""
    if not scene.is_layered:
        yield None
        return
    layer = scene.layers.create()
    layer.hold()
    yield layer
    layer.release()
    layer.discard()


def answer(scene: Scene, name: str, layer: Layer | None = None) -> Answer:
    """Run a case, with more time on a busy machine: a command that times out must print its output before."""
    case = CASES[name]
    times = (LONG,) if case.timeout is None else growing(case.timeout)
    for seconds in times:
        found = attempt(scene, case, f"case{list(CASES).index(name)}", seconds, layer)
        if {field: found[field] for field in case.expected} == case.expected:
            break
        layer = None  # what the attempt left stays on its layer
    return found


def attempt(scene: Scene, case: Case, folder: str, timeout: float, layer: Layer | None) -> Answer:
    """Run a case in a folder that nothing has named on the layer yet, and remove the folder from the workspace."""
    if layer is not None:
        layer.files.mkdir(folder)
        for name, text in case.files.items():
            layer.files.replace(f"{folder}/{name}", text.encode())
        return run_case(scene, case, folder, timeout, layer)
    path = scene.fresh(folder)
    for name, text in case.files.items():
        (path / name).write_text(text)
    try:
        return run_case(scene, case, folder, timeout)
    finally:
        shutil.rmtree(path)


def run_case(scene: Scene, case: Case, folder: str, timeout: float, layer: Layer | None = None) -> Answer:
    on_chunk, cancel = cancelling(case.cancelled_when) if case.cancelled_when else (None, None)
    outcome, living = scene.run_marked(
        case.command,
        cwd=folder,
        layer=layer,
        timeout=timeout,
        limit=case.limit,
        environment=case.environment,
        env_allowlist=case.env_allowlist and case.env_allowlist | {"CASE_MARK"},
        on_chunk=on_chunk,
        cancel=cancel,
    )
    assert living == []
    return asdict(outcome)


@pytest.mark.parametrize("name", CASES)
def test_answers(
    scene: Scene, local: Scene, local_answers: dict[str, Answer], batch_layer: Layer | None, name: str
) -> None:
    case = CASES[name]
    skip_if_lacking(scene.provider.name, *case.needs)
    if name not in local_answers:
        local_answers[name] = answer(local, name)
    outcome = local_answers[name] if scene.provider.name == "local" else answer(scene, name, batch_layer)
    assert {field: outcome[field] for field in case.expected} == case.expected
    assert {field: outcome[field] for field in case.same} == {field: local_answers[name][field] for field in case.same}


def test_what_it_is(scene: Scene) -> None:
    assert scene.provider.confines == (scene.provider.name in CONFINING)
    assert scene.provider.files is scene.root


# -- files on both sides


def test_what_a_command_writes_the_file_tools_see(sharing: Scene) -> None:
    sharing.fresh()
    sharing.run("mkdir sub; printf 'a\\r\\n' > sub/file; ln -s sub/file link; chmod 640 sub/file", cwd="case")
    files = sharing.provider.files
    with files.open("case/link") as file:
        assert (file.read(), file.stat.path, file.stat.mode & 0o777) == (b"a\r\n", "case/sub/file", 0o640)
    assert files.stat("case/sub").kind is FileKind.FOLDER
    found = os.stat(sharing.folder / "case/sub/file")
    assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())


def test_what_the_file_tools_write_a_command_sees(sharing: Scene) -> None:
    sharing.fresh()
    files = sharing.provider.files
    files.mkdir("case/sub")
    files.replace("case/sub/file", b"one")
    assert sharing.run("cat sub/file", cwd="case").stdout == "one"
    files.replace("case/sub/file", b"two")
    files.append("case/sub/file", b"+")
    assert sharing.run("cat sub/file", cwd="case").stdout == "two+"
    files.unlink("case/sub/file")
    assert sharing.run("cat sub/file 2>/dev/null", cwd="case").exit_code == 1


def test_both_see_changes_while_a_command_runs(sharing: Scene) -> None:
    sharing.fresh()
    seen: list[bytes] = []

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        with sharing.provider.files.open("case/asked") as file:
            seen.append(file.read())
        sharing.provider.files.replace("case/answer", b"here")

    command = "printf question > asked; echo go; until [ -e answer ]; do sleep 0.01; done; cat answer"
    assert sharing.run(command, cwd="case", on_chunk=on_chunk).stdout == "go\nhere"
    assert seen[0] == b"question"


def test_what_the_file_tools_wrote_a_command_on_a_layer_sees(scene: Scene) -> None:
    scene.fresh()
    for content in (b"one", b"two"):
        scene.provider.files.replace("case/file", content)
        assert scene.run("cat file; echo more > file", cwd="case").stdout == content.decode()


# -- while it runs


def test_output_comes_while_it_runs(sharing: Scene) -> None:
    folder = sharing.fresh()
    seen: list[tuple[Stream, bytes]] = []

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        seen.append((stream, chunk))
        (folder / f"seen {len(seen)}").touch()

    wait = "until [ -e 'seen %d' ]; do sleep 0.01; done"
    sharing.run(f"printf one; {wait % 1}; printf two >&2; {wait % 2}; printf three", cwd="case", on_chunk=on_chunk)
    assert seen == [("stdout", b"one"), ("stderr", b"two"), ("stdout", b"three")]


def test_a_failing_callback_ends_the_command(scene: Scene) -> None:
    scene.fresh()

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        raise RuntimeError("the reader is gone")

    with pytest.raises(RuntimeError, match="the reader is gone"):
        scene.run("echo; sleep 1000", cwd="case", environment={"CASE_MARK": "failing"}, on_chunk=on_chunk)
    assert alive("CASE_MARK=failing") == []


# -- refusals


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"command": "true", "cwd": ".."}, Code.PERMISSION_DENIED),
        ({"command": "true", "cwd": "missing"}, Code.FILE_NOT_FOUND),
        ({"command": "true", "cwd": "case/file"}, Code.INVALID_ARGUMENT),
        ({"command": "true", "environment": {"LD_PRELOAD": "x"}}, Code.PERMISSION_DENIED),
        ({"command": "true", "environment": {"A": "1"}, "env_allowlist": frozenset("B")}, Code.PERMISSION_DENIED),
        ({"command": "echo \0"}, Code.INVALID_ARGUMENT),
        ({"command": ("echo", "\ud800")}, Code.INVALID_ARGUMENT),
        ({"command": ()}, Code.INVALID_ARGUMENT),
        ({"command": ("no-such-program-anywhere",)}, Code.EXECUTION_FAILED),
        ({"command": ("/no/such/program",)}, Code.EXECUTION_FAILED),
        ({"command": ("./case/file",)}, Code.EXECUTION_FAILED),
        ({"command": "#" * 200_000}, Code.SIZE_LIMIT_EXCEEDED),
    ],
)
def test_refusals(scene: Scene, options: dict[str, object], code: Code) -> None:
    (scene.fresh() / "file").touch()
    with pytest.raises(WapError) as refusal:
        scene.run(**options)  # type: ignore[arg-type]
    assert refusal.value.code is code
    assert "namespace" not in refusal.value.text


@pytest.mark.parametrize("name", ["local", "bubblewrap"])
def test_it_gives_way_to_the_server(make_scene: MakeScene, name: str) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert make_scene(name).run("nice").stdout == f"{min(19, own + supervisor_handle.NICE)}\n"


@pytest.mark.parametrize("milliseconds", [0, 5, 10, 20, 30, 40, 60, 80])
def test_cancelled_while_it_begins(scene: Scene, milliseconds: int) -> None:
    """The command may use its grace to end by itself, and needs none of it."""

    def duration() -> float:
        cancel = CancelToken()
        threading.Timer(milliseconds / 1000, cancel.request).start()
        outcome = scene.run("sleep 1000", cancel=cancel)
        assert outcome.cancelled
        return outcome.duration

    assert any(duration() < run.GRACE - 1 for _ in range(5)), "also where the machine is busy, now and then"


def test_cancelled_before_it_began(scene: Scene) -> None:
    folder = scene.fresh()
    _, cancel = cancelling()
    cancel.request()
    assert scene.run("touch begun", cwd="case", cancel=cancel).cancelled
    assert not (folder / "begun").exists()


def test_what_refuses_the_start_keeps_the_command_from_running(scene: Scene) -> None:
    folder = scene.fresh()

    def refuse() -> None:
        raise Conflict("It is not the script that was approved.")

    command = Command("touch begun", timeout=LONG, output_limit=1 << 20, cwd="case", on_start=refuse)
    with pytest.raises(Conflict, match="approved"):
        scene.provider.run(command)
    assert not (folder / "begun").exists()
    assert scene.run("touch begun", cwd="case").exit_code == 0
