"""The gvisor provider with the real runsc: what is its own beside the conformance suite.

Warm sandboxes that keep nothing from one command to the next, nothing left behind, and the limits.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wap_kernel.providers.scene import Guard, Journal
from tests.wap_kernel.providers.scene import probe as probed
from wap_kernel.commands import supervisor
from wap_kernel.commands.outcome import Cancel, Outcome
from wap_kernel.errors import Code, ProviderUnavailable, WapError
from wap_kernel.files.root import Root
from wap_kernel.providers import gvisor
from wap_kernel.providers.base import Command, Confinement, Probe, Provider, ResourceLimits
from wap_kernel.providers.gvisor import GvisorProvider, probe
from wap_kernel.providers.gvisor_pool import Home, Pool, Wanted
from wap_kernel.providers.gvisor_sandbox import Sandbox
from wap_kernel.providers.resources import find_groups

PATIENCE = 60.0
OTHER_USER = 54321


@pytest.fixture(scope="session")
def works() -> Probe:
    found = probed("gvisor")
    if not found.works:
        pytest.skip(f"gvisor: {found.detail}")
    return found


@pytest.fixture
def workspace(tmp_path: Path, works: Probe) -> Path:
    folder = tmp_path / "ws"
    (folder / "keys").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in (".env", "keys/private", ".git/config"):
        (folder / name).write_text("SECRET")
    return folder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of the sandboxes that were started."""
    folders: list[str] = []

    class Counted(Sandbox):
        def __init__(self, program: str, folder: str, *rest: object, **options: object) -> None:
            folders.append(folder)
            super().__init__(program, folder, *rest, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(gvisor, "Sandbox", Counted)
    return folders


@contextmanager
def providing(
    workspace: Path, *, limits: ResourceLimits | None = None, grace: float = 0.2, idle: float = 300.0
) -> Iterator[GvisorProvider]:
    root = Root(str(workspace), guard=Guard(), journal=Journal())
    provider = GvisorProvider(root, secrets=(), grace=grace, resources=limits, idle=idle)
    try:
        yield provider
    finally:
        provider.close()
        root.close()


@pytest.fixture
def provider(workspace: Path) -> Iterator[GvisorProvider]:
    with providing(workspace) as provider:
        yield provider


GUARDED = Confinement(hidden=(".env", "keys"), read_only=(".git/config",), pinned=(".git",))


def run(
    provider: Provider,
    command: str | tuple[str, ...],
    *,
    timeout: float = PATIENCE,
    confinement: Confinement = GUARDED,
    cancel: Cancel | None = None,
) -> Outcome:
    return provider.run(Command(command, timeout=timeout, output_limit=10_000, confinement=confinement), cancel=cancel)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def of_sandboxes(folder: str) -> list[int]:
    """The processes of runsc that have to do with a folder."""
    found = []
    for pid in supervisor.process_numbers():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if folder.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def test_what_the_probe_tells(works: Probe) -> None:
    assert works.name == "gvisor"
    assert "runsc version" in works.detail
    assert "platform" in works.detail
    assert works.promises["files outside"] and works.promises["network"]
    assert ("statx" in works.detail) is not works.promises["statx"]


@pytest.mark.parametrize("program", ["/nonexistent/runsc", "/bin/true", "/bin/false"])
def test_a_machine_without_runsc(program: str) -> None:
    found = probe(program)
    assert not found.works
    assert found.detail
    assert found.fix


def test_a_provider_without_runsc_is_refused_with_what_to_do(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gvisor.PROGRAM_VARIABLE, "/nonexistent/runsc")
    with pytest.raises(ProviderUnavailable, match="not found") as refusal, providing(workspace):
        pass
    assert refusal.value.hint == gvisor.INSTALL


def test_it_is_a_provider_and_says_that_it_confines(provider: GvisorProvider) -> None:
    as_provider: Provider = provider
    assert (as_provider.name, as_provider.confines) == ("gvisor", True)


# -- files


def test_a_file_is_seen_on_both_sides_at_once(provider: GvisorProvider, workspace: Path) -> None:
    (workspace / "in").write_text("from outside")
    assert run(provider, "cat in; echo from inside > out").stdout == "from outside"
    assert (workspace / "out").read_text() == "from inside\n"
    (workspace / "in").write_text("changed")
    assert run(provider, "cat in /workspace/out").stdout == "changedfrom inside\n"


def test_what_a_command_makes_belongs_to_the_user_of_the_server(provider: GvisorProvider, workspace: Path) -> None:
    run(provider, "mkdir made; touch made/file")
    for path in (workspace / "made", workspace / "made/file"):
        assert (path.stat().st_uid, path.stat().st_gid) == (os.getuid(), os.getgid())


GUARDS = [
    ("cat .env /workspace/.env", "SECRET", False),
    ("cat keys/* /workspace/keys/*", "SECRET", False),
    ("cat .git/config", "SECRET", True),
    ("echo x > .git/config || rm -f .git/config || mv .git/config c || echo refused", "refused", True),
    ("mv .git moved || rm -rf .git || echo refused", "refused", True),
    ("rm -rf keys .env; mv keys k || mv .env e || echo refused", "refused", True),
    ("touch /usr/x /etc/x /x /root/../usr/x || echo refused", "refused", True),
]


@pytest.mark.parametrize(("command", "text", "is_there"), GUARDS, ids=[case[0] for case in GUARDS])
def test_guards(provider: GvisorProvider, workspace: Path, command: str, text: str, is_there: bool) -> None:
    assert (text in run(provider, command).stdout) is is_there
    for name in (".env", "keys/private", ".git/config"):
        assert (workspace / name).read_text() == "SECRET"


def test_more_guards_than_fit_twice(provider: GvisorProvider, workspace: Path) -> None:
    """The other name is a link then, so what holds at one holds at both."""
    names = tuple(f"secret {number}" for number in range(240))
    for name in names:
        (workspace / name).write_text("SECRET")
    command = "cat 'secret 0' '/workspace/secret 0' '/workspace/secret 99'; [ -L /workspace ]; echo $?"
    assert run(provider, command, confinement=Confinement(hidden=names[:100])).stdout == "0\n"
    with pytest.raises(ProviderUnavailable, match="too large for gVisor") as refusal:
        run(provider, "touch begun", confinement=Confinement(hidden=names))
    assert "coarser" in (refusal.value.hint or "")
    assert not (workspace / "begun").exists()


def test_a_guarded_file_that_was_replaced_is_guarded_again(provider: GvisorProvider, workspace: Path) -> None:
    run(provider, "true")
    for name in (".env", ".git/config"):
        (workspace / "new").write_text("NEW SECRET")
        (workspace / "new").rename(workspace / name)
    outcome = run(provider, "cat .env; echo x > .git/config; cat .git/config")
    assert outcome.stdout == "NEW SECRET"
    assert (workspace / ".git/config").read_text() == "NEW SECRET"


def test_what_is_removed_while_the_sandbox_starts_is_not_made_again(
    provider: GvisorProvider, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Sandbox):
        def __init__(self, *arguments: object, **options: object) -> None:
            (workspace / ".env").unlink(missing_ok=True)
            super().__init__(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(gvisor, "Sandbox", Late)
    assert run(provider, "cat keys/*; echo done").stdout == "done\n"
    assert not (workspace / ".env").exists()


NAMESPACES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), libc.unshare(0x20000))
for path in sys.argv[1:]:
    print(libc.umount2(path.encode(), 2))
    os.system(f"cat {path} {path}/*")
print(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
"""


def test_namespaces_of_its_own_gain_nothing(provider: GvisorProvider, workspace: Path) -> None:
    guards = [str(workspace / name) for name in (".env", "keys")]
    outcome = run(provider, (sys.executable, "-c", NAMESPACES, *guards))
    assert "SECRET" not in outcome.stdout
    assert outcome.stdout.splitlines()[1:] == ["-1", "-1", "-1"]


@pytest.mark.parametrize(("cwd", "hidden"), [("odd-\udcff", ()), (".", ("odd-\udcff",))])
def test_a_name_that_is_not_utf8_is_refused(
    provider: GvisorProvider, workspace: Path, cwd: str, hidden: tuple[str, ...]
) -> None:
    (workspace / "odd-\udcff").mkdir()
    before = sorted(workspace.iterdir())
    command = Command("true", PATIENCE, 1000, cwd=cwd, confinement=Confinement(hidden))
    with pytest.raises(WapError, match=r"not UTF-8: .*odd-\\xff") as refusal:
        provider.run(command)
    assert refusal.value.code is Code.INVALID_ARGUMENT
    assert sorted(workspace.iterdir()) == before


def test_a_folder_that_no_sandbox_is_built_around(
    works: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ProviderUnavailable, match="holds the system itself"), providing(Path("/")):
        pass
    assert not list(tmp_path.iterdir())


def test_a_workspace_that_was_moved_away(provider: GvisorProvider, workspace: Path) -> None:
    workspace.rename(workspace.parent / "moved")
    workspace.mkdir()
    with pytest.raises(WapError) as refusal:
        run(provider, "touch begun", confinement=Confinement())
    assert refusal.value.code is Code.PROVIDER_UNAVAILABLE
    assert not list(workspace.iterdir())


# -- warm sandboxes


def test_commands_share_a_sandbox(provider: GvisorProvider, started: list[str]) -> None:
    for _ in range(3):
        assert run(provider, "echo hello").stdout == "hello\n"
    assert len(started) == 1


LEFT = [
    ("a file", "echo planted > /tmp/left", "cat /tmp/left"),
    ("a hidden file", "echo planted > ~/.gitconfig", "cat ~/.gitconfig"),
    ("a name like a pattern", "echo planted > '/tmp/*'", "cat '/tmp/*'"),
    ("a folder that was closed", "echo planted > ~/left; chmod 0700 ~", "cat ~/left"),
    ("shared memory", "echo planted > /dev/shm/left", "cat /dev/shm/left"),
    ("a device", "rm -f /dev/null; echo planted > /dev/null", "cat /dev/null"),
    ("on the way to the workspace", "echo planted > ../left", "cat ../left"),
    ("a process", "(while :; do echo planted > /tmp/left; sleep 0.01; done) >/dev/null 2>&1 &", "cat /tmp/left"),
    ("process 1", "kill -KILL 1; kill -STOP 1; echo planted > /proc/1/environ", "cat /proc/1/environ"),
]


@pytest.mark.parametrize(("first", "second"), [case[1:] for case in LEFT], ids=[case[0] for case in LEFT])
def test_nothing_goes_from_one_command_to_the_next(provider: GvisorProvider, first: str, second: str) -> None:
    run(provider, first)
    assert "planted" not in run(provider, second).stdout


def test_commands_at_once_have_sandboxes_of_their_own(provider: GvisorProvider, workspace: Path) -> None:
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.02; done; echo /proc/[0-9]*"
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda names: run(provider, meet.format(*names)).stdout, [("a", "b"), ("b", "a")]))
    assert all(len(answer.split()) <= 3 for answer in answers)


def test_a_sandbox_that_nobody_needs_is_ended(workspace: Path, started: list[str]) -> None:
    with providing(workspace, idle=0.01) as provider:
        run(provider, "true")
        wait_until(lambda: not os.path.exists(started[0]))
        assert not of_sandboxes(started[0])


def test_a_sandbox_that_was_killed_is_replaced(provider: GvisorProvider, started: list[str]) -> None:
    run(provider, "true")
    (waiting,) = provider._pool._waiting
    for pid in of_sandboxes(started[0]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not of_sandboxes(started[0]))
    wait_until(lambda: not waiting.sandbox.is_alive)  # a dying process has lost its command line a moment before
    assert run(provider, "echo hello").stdout == "hello\n"


def test_a_command_that_cannot_be_started_leaves_nothing(provider: GvisorProvider, started: list[str]) -> None:
    run(provider, "true")
    (waiting,) = provider._pool._waiting
    runsc = waiting.sandbox._runsc
    program, runsc[0] = runsc[0], "/nonexistent/runsc"
    descriptors, files = len(os.listdir("/proc/self/fd")), sorted(os.listdir(started[0]))
    for _ in range(20):
        with pytest.raises(WapError):
            run(provider, "true")
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert sorted(os.listdir(started[0])) == files
    runsc[0] = program
    assert run(provider, "echo hello").stdout == "hello\n"
    assert len(started) == 1


def test_closing_waits_for_what_is_being_started_ahead(tmp_path: Path, works: Probe) -> None:
    """Whatever thread `close` finds can be joined: it has been started."""
    begun = threading.Event()

    def fail(wanted: Wanted, folder: str) -> Sandbox:
        begun.set()
        raise ProviderUnavailable("not here")

    home = Home(gvisor.find(), str(tmp_path))
    found: list[bool] = []

    class Observed(list[threading.Thread]):
        def append(self, thread: threading.Thread) -> None:
            found.append(thread.ident is not None)
            super().append(thread)

    pool = Pool(home, fail)
    pool._starting = Observed()
    pool._start_ahead(Wanted((), False, ()))
    pool.close()
    home.close()
    assert begun.is_set()
    assert found == [True]


# -- the end

ENDLESS = [
    ("alone", "sleep 1000", 128 + signal.SIGTERM),
    ("ignores TERM", "trap '' TERM; sleep 1000 & sleep 1000", 128 + signal.SIGKILL),
    ("a session of its own", "setsid sleep 1000 & sleep 1000", 128 + signal.SIGTERM),
    ("stopped", "kill -STOP $$", 128 + signal.SIGTERM),
]


@pytest.mark.parametrize(("command", "code"), [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS])
def test_nothing_is_left_after_a_cancellation(
    provider: GvisorProvider, workspace: Path, started: list[str], command: str, code: int
) -> None:
    cancel = Cancel()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run, provider, f"touch begun; {command}", cancel=cancel)
        wait_until((workspace / "begun").exists)
        cancel.request()
        outcome = running.result()
    assert (outcome.cancelled, outcome.exit_code) == (True, code)
    assert run(provider, "echo /proc/[0-9]*").stdout.split()[0] == "/proc/1"
    assert len(run(provider, "echo /proc/[0-9]*").stdout.split()) == 2


def _holds_processes(group: str) -> bool:
    try:
        return bool(Path(group, "cgroup.procs").read_text())
    except OSError:  # no group, or gone meanwhile
        return not os.path.exists(group)


def test_closing_leaves_no_trace(workspace: Path, started: list[str]) -> None:
    groups = list(find_groups().folders.values())
    before = [set(os.listdir(folder)) for folder in groups]
    threads = threading.active_count()
    with providing(workspace) as provider:
        run(provider, "touch /tmp/left")
        run(provider, "true")
        provider.close()
        with pytest.raises(ProviderUnavailable, match="closed"):
            run(provider, "true")
    assert not any(of_sandboxes(folder) for folder in started)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in started)
    # Those of somebody else, who tests beside us, have processes in them.
    left = [
        name
        for folder, names in zip(groups, before, strict=True)
        for name in set(os.listdir(folder)) - names
        if not _holds_processes(os.path.join(folder, name))
    ]
    assert left == []
    assert threading.active_count() == threads


def script(program: str, workspace: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, workspace],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


KILLED = """
import sys
from tests.wap_kernel.providers.test_gvisor import *
with providing(Path(sys.argv[1])) as provider:
    provider.run(Command("echo begun; trap '' TERM; setsid sleep 1000 & sleep 1000", 1000, 1000),
                 on_chunk=lambda *_: print(provider._home.path, flush=True))
"""


def test_when_the_server_is_killed_nothing_stays(workspace: Path) -> None:
    with script(KILLED, workspace) as server:
        assert server.stdout is not None
        home = server.stdout.readline().strip()
        assert of_sandboxes(home)
        server.kill()
    wait_until(lambda: not of_sandboxes(home))
    assert os.path.isdir(home)
    Home(gvisor.find()).close()  # the next start
    assert not os.path.exists(home)


def test_the_next_start_leaves_those_alone_who_live(tmp_path: Path, works: Probe) -> None:
    first = Home(gvisor.find(), str(tmp_path))
    second = Home(gvisor.find(), str(tmp_path))
    assert os.path.isdir(first.path)
    second.close()
    first.close()
    assert not list(tmp_path.iterdir())


# -- network, limits, users


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_there_only_when_granted(provider: GvisorProvider, network: bool) -> None:
    program = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'hello')"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        outcome = run(provider, (sys.executable, "-c", program, port), confinement=Confinement(network=network))
        assert (outcome.exit_code == 0) is network, outcome.stderr
        assert bool(select.select([listener], [], [], 0)[0]) is network


SMALL = ResourceLimits(processes=20, memory=256 * 1024**2, file_size=1024**2)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, works: Probe) -> Iterator[GvisorProvider]:
    with providing(tmp_path_factory.mktemp("limited"), limits=SMALL) as provider:
        yield provider


def test_the_size_of_a_file_is_limited(limited: GvisorProvider) -> None:
    run(limited, "head -c 3000000 /dev/zero > big", confinement=Confinement())
    assert os.path.getsize(os.path.join(limited.files.path, "big")) == SMALL.file_size


FORKS = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(1000)
"""


def test_the_number_of_processes_is_limited(limited: GvisorProvider) -> None:
    outcome = run(limited, (sys.executable, "-c", FORKS), confinement=Confinement())
    assert "BlockingIOError" in outcome.stderr


def test_memory_is_limited_where_the_probe_says_so(limited: GvisorProvider, works: Probe) -> None:
    if not works.promises["memory"]:
        pytest.skip("no control group for memory can be made here")
    outcome = run(limited, (sys.executable, "-c", f"x = b'x' * {2 * 256 * 1024**2}"), confinement=Confinement())
    assert outcome.exit_code != 0
    assert run(limited, "echo hello", confinement=Confinement()).stdout == "hello\n"


# It becomes that user only when everything is imported, which that user may not be able to read.
AS_ANOTHER_USER = f"""
import sys
from tests.wap_kernel.providers.test_gvisor import *
os.setgroups([]); os.setgid({OTHER_USER}); os.setuid({OTHER_USER})
os.environ.update(HOME="/nonexistent", PATH="/usr/bin:/bin")
with providing(Path(sys.argv[1])) as provider:
    print(run(provider, "cat .env; echo made > made; echo done", confinement=Confinement(hidden=(".env",))).stdout)
"""


def test_it_works_for_an_ordinary_user(works: Probe) -> None:
    if os.getuid() != 0:
        pytest.skip("the other tests do")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        workspace = Path(folder, "ws")
        workspace.mkdir()
        (workspace / ".env").write_text("SECRET")
        for path in (workspace, workspace / ".env"):
            os.chown(path, OTHER_USER, OTHER_USER)
        with script(AS_ANOTHER_USER, workspace) as child:
            assert child.communicate(timeout=PATIENCE)[0] == "done\n\n"
        assert (workspace / "made").stat().st_uid == OTHER_USER
