"""The namespace of a sandbox: the layer and the guards are mounted in it, and nothing of it appears elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gvisor_sandboxes import wait_until
from tests.support.layer_workspace import ENVIRONMENT, LayerWorkspace, describe
from tests.support.process_nursery import PROJECT
from wap_kernel.model.errors import Conflict, ProviderUnavailable, TooLarge
from wap_kernel.providers.layers.launcher import CommandLine, Launcher, TaskFailure

SECRET = "the secret"


@pytest.fixture
def filled(workspace: LayerWorkspace) -> LayerWorkspace:
    folder = workspace.folder
    (folder / "a/b").mkdir(parents=True)
    (folder / "keys").mkdir()
    for name in (".env", "keys/private", "a/.env", "a/b/settings", "plain"):
        (folder / name).write_text(SECRET)
    return workspace


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


# -- the workspace


def test_what_is_written_on_a_layer_does_not_reach_the_workspace(filled: LayerWorkspace) -> None:
    before = snapshot(filled.folder)
    layer = filled.layers.create()
    script = "cat plain; echo x > plain; rm -r keys; mkdir new; mv a/.env new; chmod 700 .; cat plain"
    outcome = filled.run(script, filled.make_task(layer=layer))
    assert (outcome.exit_code, outcome.output) == (0, f"{SECRET}x\n")
    assert snapshot(filled.folder) == before
    assert describe(layer.read_changes()) == [
        *("mode .", "deleted a/.env", "deleted keys", "deleted keys/private"),
        *("created new", "created new/.env", "changed plain"),
    ]
    layer.discard()


def test_the_kernel_syncs_nothing_of_a_layer_which_can_be_mounted_again(filled: LayerWorkspace) -> None:
    """Otherwise each file that is copied into the layer is synced, and the whole filesystem with each unmount."""
    layer = filled.layers.create()
    for number in range(3):
        script = f"grep ' overlay ' /proc/self/mountinfo | grep -c volatile; echo {number} >> plain; mkdir new{number}"
        outcome = filled.run(script, filled.make_task(layer=layer))
        assert (outcome.exit_code, outcome.output, outcome.failure) == (0, "1\n", None)
    merged = Path(f"/proc/self/fd/{layer.hold()}")
    assert (merged / "plain").read_text() == f"{SECRET}0\n1\n2\n"
    layer.release()
    layer.hold()
    assert describe(layer.read_changes()) == ["created new0", "created new1", "created new2", "changed plain"]
    layer.discard()


def test_without_a_layer_a_command_writes_into_the_workspace(filled: LayerWorkspace) -> None:
    outcome = filled.run("echo x > plain; rm -r keys", filled.make_task())
    assert outcome.exit_code == 0
    assert (filled.folder / "plain").read_text() == "x\n"
    assert not (filled.folder / "keys").exists()


def test_a_read_only_workspace(filled: LayerWorkspace) -> None:
    before = snapshot(filled.folder)
    for layer in (None, filled.layers.create()):
        task = filled.make_task(("hidden file", "a/.env"), layer=layer, read_only=True)
        script = "touch new plain; rm -f plain; echo x > a/b/new; mv a c; chmod 777 a; cat plain a/.env"
        outcome = filled.run(script, task)
        assert outcome.output.count("Read-only file system") == 5 + (script.count("touch"))
        assert outcome.output.endswith(SECRET)
        assert layer is None or describe(layer.read_changes()) == []
        if layer is not None:
            layer.discard()
    assert snapshot(filled.folder) == before


@pytest.mark.parametrize("name", ["with space", "a:b,c=d\\e", 'quote"d', "ünïcode", "odd-\udcff", "new\nline"])
def test_any_name_of_a_workspace(tmp_path: Path, name: str) -> None:
    """The options of a mount are a list with separators; the folders are handed over by descriptor."""
    workspace = LayerWorkspace(tmp_path, root=tmp_path / name / "root", state=tmp_path / name / "state")
    try:
        (workspace.folder / name).write_text(SECRET)
        layer = workspace.layers.create()
        outcome = workspace.run("cat ./*; touch made", workspace.make_task(("hidden file", name), layer=layer))
        assert (outcome.exit_code, outcome.output) == (0, "")
        assert describe(layer.read_changes()) == ["created made"]
        layer.discard()
    finally:
        workspace.close()


def test_a_state_folder_in_the_workspace(tmp_path: Path) -> None:
    """As when the workspace is the home folder."""
    workspace = LayerWorkspace(tmp_path, state=tmp_path / "ws/.local/state")
    (workspace.folder / ".local/state/secret").write_text(SECRET)
    layer = workspace.layers.create()
    task = workspace.make_task(("writable", ".local"), ("hidden folder", ".local/state"), layer=layer)
    outcome = workspace.run("ls -A .local/state; touch made; rm -rf .local", task)
    assert "Device or resource busy" in outcome.output and SECRET not in outcome.output
    assert describe(layer.read_changes()) == ["created made"]
    layer.discard()
    workspace.close()


def test_a_workspace_that_was_moved(filled: LayerWorkspace) -> None:
    filled.folder.rename(filled.folder.with_name("moved"))
    filled.folder.mkdir()
    outcome = filled.run("touch begun", filled.make_task())
    assert outcome.failure == TaskFailure("moved", "another folder has the path of the workspace")
    assert isinstance(outcome.failure.to_error(), ProviderUnavailable)
    assert list(filled.folder.iterdir()) == []


def test_another_file_system_in_the_workspace_is_part_of_it(tmp_path: Path) -> None:
    """Not on a layer, which shows the folder below it."""
    if os.getuid() != 0:
        pytest.skip("only root may mount")
    script = (
        "import sys; from pathlib import Path; from tests.support.layer_workspace import LayerWorkspace;"
        "import subprocess; w = LayerWorkspace(Path(sys.argv[1])); (w.folder / 'm').mkdir();"
        "subprocess.run(['mount', '-t', 'tmpfs', 'none', w.folder / 'm'], check=True);"
        "(w.folder / 'm/file').write_text('x');"
        "print(w.run('cat m/file; rm m/file', w.make_task(('read-only', 'm/file'))).output); w.close()"
    )
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script, tmp_path], cwd=PROJECT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("xrm: ")


# -- guards

GUARDS = {
    "a hidden file": (
        [("hidden file", ".env")],
        "cat .env; echo x > .env; rm -f .env; mv .env e; ln .env l; chmod 777 .env; truncate -s 0 .env",
    ),
    "a hidden folder": (
        [("hidden folder", "keys")],
        "cat keys/*; echo x > keys/n; rm -rf keys; mv keys k; chmod 777 keys; rmdir keys; mkdir keys/x",
    ),
    "a read-only file": (
        [("read-only", "plain")],
        ": > plain; echo x >> plain; rm -f plain; mv plain p; ln plain l; chmod 777 plain; mv -f .env plain",
    ),
    "a read-only folder": (
        [("read-only", "a")],
        "echo x > a/.env; rm -rf a; mv a c; mkdir a/c; echo x > a/b/settings; chmod 777 a/b; mv a/b a/c; mv .env a",
    ),
    "a pinned folder": ([("writable", "a")], "mv a c; rmdir a; rm -f nothing"),
    "one in the other": (
        [("writable", "a"), ("read-only", "a/b"), ("hidden file", "a/.env"), ("hidden file", "a/b/settings")],
        "cat a/.env a/b/settings; echo x > a/.env; rm -rf a/b; mv a/b a/c; touch a/b/new; echo x > a/b/settings",
    ),
}


@pytest.mark.parametrize("isolation", ["shared", "layer"])
@pytest.mark.parametrize("name", GUARDS)
def test_a_guard(filled: LayerWorkspace, name: str, isolation: str) -> None:
    guards, script = GUARDS[name]
    before = snapshot(filled.folder)
    layer = filled.layers.create() if isolation == "layer" else None
    outcome = filled.run(script, filled.make_task(*guards, layer=layer))
    assert outcome.failure is None
    assert SECRET not in outcome.output
    assert snapshot(filled.folder) == before
    if layer is not None:
        assert describe(layer.read_changes()) == []
        layer.discard()


def test_what_guards_leave_open(filled: LayerWorkspace) -> None:
    task = filled.make_task(("writable", "a"), ("read-only", "a/b"), ("hidden file", ".env"))
    outcome = filled.run("echo x > a/new; rm a/.env; cat a/b/settings; wc -c < .env; rm -r keys; mv plain p", task)
    assert (outcome.exit_code, outcome.output) == (0, f"{SECRET}0\n")
    assert sorted(path.name for path in filled.folder.rglob("*")) == sorted([".env", "a", "new", "b", "settings", "p"])


def test_many_guards(workspace: LayerWorkspace) -> None:
    """The task is larger than a message of a socket may be."""
    names = [f"{'a long name ' * 12}{number}" for number in range(3000)]
    for name in names:
        (workspace.folder / name).write_text(SECRET)
    outcome = workspace.run("cat *", workspace.make_task(*(("hidden file", name) for name in names)))
    assert (outcome.exit_code, outcome.output, outcome.failure) == (0, "", None)


# -- races: a path is not what it was when the guards were planned

RACES = {
    "gone": ("hidden file", "a/.env", "rm a/.env"),
    "its folder is gone": ("hidden file", "a/.env", "mv a c"),
    "a folder now": ("hidden file", ".env", "rm .env; mkdir .env"),
    "a file now": ("hidden folder", "keys", "mv keys k; touch keys"),
    "a link now": ("read-only", "plain", "rm plain; ln -s .env plain"),
    "its folder is a link now": ("hidden file", "a/.env", "mv a c; ln -s c a"),
    "its folder is a way out": ("writable", "a/b", "mv a c; ln -s .. a; mkdir ../b"),
}


@pytest.mark.parametrize("isolation", ["shared", "layer"])
@pytest.mark.parametrize("name", RACES)
def test_a_race(filled: LayerWorkspace, name: str, isolation: str) -> None:
    kind, path, change = RACES[name]
    layer = filled.layers.create() if isolation == "layer" else None
    task = filled.make_task((kind, path), layer=layer)
    subprocess.run(["sh", "-c", change], cwd=filled.folder, check=True)
    before = (snapshot(filled.folder), os.listdir(filled.folder.parent))
    outcome = filled.run("touch begun", task)
    assert outcome.failure is not None and outcome.failure.kind == "race"
    assert isinstance(outcome.failure.to_error(), Conflict)
    assert outcome.exit_code == 1
    assert (snapshot(filled.folder), os.listdir(filled.folder.parent)) == before
    if layer is not None:
        layer.discard()


# -- several commands on one layer


def test_a_namespace_that_joins_another(filled: LayerWorkspace) -> None:
    layer = filled.layers.create()
    layer.hold()
    merged = layer.files
    assert filled.run("echo one > new; mkdir sub", filled.make_task(layer=layer)).exit_code == 0
    merged.replace("sub/written", b"by a file tool")
    task = filled.make_task(("hidden file", ".env"), ("read-only", "plain"), layer=layer, root=merged)
    outcome = filled.run("cat new .env sub/written; echo x > plain", task)
    assert outcome.output.startswith("one\nby a file tool") and "Read-only" in outcome.output
    with merged.open(".env") as file:
        assert file.read() == SECRET.encode(), "a guard is mounted for one command"
    layer.release()
    assert describe(layer.read_changes()) == ["created new", "created sub", "created sub/written"]
    layer.discard()
    assert not (filled.folder / "new").exists()


def test_a_namespace_that_joins_another_may_be_read_only(filled: LayerWorkspace) -> None:
    layer = filled.layers.create()
    layer.hold()
    filled.run("echo one > new", filled.make_task(layer=layer))
    outcome = filled.run("cat new; touch other", filled.make_task(layer=layer, read_only=True))
    assert outcome.output.startswith("one\n") and "Read-only" in outcome.output
    layer.discard()


# -- what the command is given


def test_nothing_appears_in_the_servers_namespace(filled: LayerWorkspace) -> None:
    layer = filled.layers.create()
    layer.hold()
    filled.run("true", filled.make_task(("hidden file", ".env"), layer=layer))
    filled.run("true", filled.make_task(("hidden file", ".env")))
    assert str(filled.folder) not in Path("/proc/self/mountinfo").read_text()
    assert (filled.folder / ".env").read_text() == SECRET
    layer.discard()


def test_signals_that_the_server_ignores_or_blocks(workspace: LayerWorkspace) -> None:
    """A server under nohup ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        outcome = workspace.execute(["/bin/grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"], workspace.make_task())
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    # Signals 32 and 33 are the C library's own: no program can set them, and a container may start with them ignored.
    own = 1 << 31 | 1 << 32
    assert [int(line.split()[1], 16) & ~own for line in outcome.output.splitlines()] == [0, 0]


def test_it_inherits_no_descriptor(filled: LayerWorkspace) -> None:
    layer = filled.layers.create()
    layer.hold()
    for task in (filled.make_task(("hidden file", ".env")), filled.make_task(("read-only", "a"), layer=layer)):
        outcome = filled.execute([sys.executable, "-Sc", "import os; print(os.listdir('/proc/self/fd'))"], task)
        assert outcome.output == "['0', '1', '2', '3']\n", "3 is the folder that it lists"
    layer.discard()


def test_descriptors_have_the_numbers_that_were_given(workspace: LayerWorkspace) -> None:
    """Also where a number is that of another one."""
    pipes = [os.pipe() for _ in range(6)]
    writers = [write for _, write in pipes]
    numbers = [1, 2, *(writers[index] for index in (3, 2)), 5, 60]
    script = "; ".join(f"echo {number} >&{number}" for number in dict.fromkeys(numbers))
    command = CommandLine(["/bin/bash", "-c", script], ENVIRONMENT, dict(zip(numbers, writers, strict=True)))
    program = workspace.launcher.launch(workspace.make_task(), command)
    for writer in writers:
        os.close(writer)
    received = []
    for read, _ in pipes:
        with open(read, "rb") as file:
            received.append(file.read())
    program.end()
    assert received == [f"{number}\n".encode() for number in numbers]


def test_the_environment_is_the_commands_own(workspace: LayerWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    outcome = workspace.execute(["/usr/bin/env"], workspace.make_task(), {"ONLY": "this", "ÜML": "ä\udcff"})
    assert sorted(outcome.output.splitlines()) == ["ONLY=this", "ÜML=ä\ufffd"]


def test_a_program_that_is_not_there(workspace: LayerWorkspace) -> None:
    outcome = workspace.execute(["/no/such/program"], workspace.make_task())
    assert outcome.failure is not None and outcome.failure.kind == "failed"
    assert "No such file" in outcome.failure.text
    assert outcome.failure.to_error() is None


def test_a_command_that_is_too_long(workspace: LayerWorkspace) -> None:
    outcome = workspace.execute(["/bin/true", "x" * 200_000], workspace.make_task())
    assert outcome.failure is not None
    assert isinstance(outcome.failure.to_error(), TooLarge)
    outcome = workspace.execute(["/bin/true", *["x" * 100_000] * 10], workspace.make_task())
    assert (outcome.exit_code, outcome.failure) == (0, None)


# -- the end


def test_a_program_that_waits_and_was_killed_is_replaced(workspace: LayerWorkspace) -> None:
    launcher = Launcher(user_namespace=workspace.launcher.user_namespace, is_ahead=True)
    workspace.launcher, before = launcher, workspace.launcher
    try:
        assert workspace.run("echo one", workspace.make_task()).output == "one\n"
        wait_until(lambda: launcher._prepared is not None)
        assert launcher._prepared is not None
        launcher._prepared.process.kill()
        launcher._prepared.process.wait()
        assert workspace.run("echo two", workspace.make_task()).output == "two\n"
        wait_until(lambda: launcher._prepared is not None)
        waiting = launcher._prepared
        assert waiting.process.poll() is None
        launcher.close()
        assert waiting.process.returncode == 0
    finally:
        launcher.close()
        workspace.launcher = before


SERVER = """
import sys, time
from pathlib import Path
from tests.support.layer_workspace import LayerWorkspace
from wap_kernel.providers.layers.launcher import Launcher, NamespaceProcess
workspace = LayerWorkspace(Path(sys.argv[1]))
layer = workspace.layers.create()
layer.hold()
waiting = NamespaceProcess(workspace.launcher._limits, workspace.launcher._groups)
print(layer._holder.process.pid, waiting.process.pid, flush=True)
time.sleep(1000)
"""


def test_when_the_server_is_killed_its_programs_end(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, tmp_path], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        numbers = server.stdout.readline().split()
        assert len(numbers) == 2 and all(os.path.exists(f"/proc/{number}") for number in numbers)
        server.kill()
    wait_until(lambda: not any(os.path.exists(f"/proc/{number}") for number in numbers))
