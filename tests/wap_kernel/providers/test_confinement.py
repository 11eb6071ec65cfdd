"""Test what a command in a sandbox cannot do. Without a sandbox every attempt would succeed and do no harm."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
import threading
import unittest.mock
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.provider_workspace import CONFINING, MakeScene, Scene, skip_unless_works
from wap_kernel.model.errors import PermissionDenied

SECRET = "the secret"


@pytest.fixture(params=CONFINING, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Machine:
    """A home with a workspace and secrets in it, and what Jupyter keeps there."""

    def __init__(self, home: Path, root: Path) -> None:
        self.home = home
        self.root = root
        self.state = home / ".local/share/jupyter/wap/id"
        self.runtime = home / ".local/share/jupyter/runtime"
        self.config = home / ".config/git/config"
        for folder in (root, self.state, self.runtime, self.config.parent, home / ".ssh", root / "deep/er"):
            folder.mkdir(parents=True, exist_ok=True)
        for file in (self.state / "state.db", self.runtime / "jpserver-1.json", home / ".ssh/id_rsa", self.config):
            file.write_text(SECRET)
        (home / ".bashrc").write_text(f"# {SECRET}\n")
        (root / ".git/hooks").mkdir(parents=True)
        (root / ".git/config").write_text("[core]\n")
        (root / ".env").write_text(SECRET)
        (root / "keys").mkdir()
        (root / "keys/a.pem").write_text(SECRET)
        (root / "deep/er/.env").write_text(SECRET)
        (root / "link to env").symlink_to("deep/er/.env")
        (root / "settings.json").write_text("{}")

    def snapshot(self) -> set[tuple[str, str]]:
        return {
            (str(path.relative_to(self.home)), path.read_text() if path.is_file() else "")
            for path in self.home.rglob("*")
        }

    @property
    def confinement(self) -> dict[str, tuple[str, ...]]:
        found = {
            "hidden": (".env", "keys", "link to env"),
            "read_only": (".git/config", ".git/hooks", "settings.json"),
            "pinned": (".git",),
        }
        if self.root == self.home:
            found["read_only"] += (".bashrc", ".config/git")
            found["hidden"] += (".ssh",)
        return found


@pytest.fixture(params=["below home", "home itself"], scope="module")
def machine(request: pytest.FixtureRequest, name: str, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One for all tries: none of them leaves anything that the next one would miss."""
    home = tmp_path_factory.mktemp(name) / "home"
    return Machine(home, home / "ws" if request.param == "below home" else home)


@pytest.fixture(scope="module")
def scene(machine: Machine, name: str) -> Iterator[Scene]:
    skip_unless_works(name)
    with closing(Scene(name, machine.root, home=machine.home, secrets=(machine.state, machine.runtime))) as scene:
        yield scene


def attempt(scene: Scene, machine: Machine, command: str) -> str:
    """Run in the workspace, and once more at its other name."""
    twice = f"{command}\ncd /workspace || exit 126\n{command}"
    outcome = scene.run(twice, **machine.confinement)  # type: ignore[arg-type]
    assert outcome.exit_code not in (126, 127), outcome.stderr
    return outcome.stdout + outcome.stderr


# -- reading

READS = {
    "a hidden file": "cat .env",
    "a hidden file at the other name": "cat /workspace/.env /workspace/../workspace/./.env",
    "in a hidden folder": "cat keys/a.pem keys/*",
    "in a hidden folder at the other name": "cat /workspace/keys/a.pem",
    "what a hidden link leads to": "cat 'link to env' deep/er/.env /workspace/deep/er/.env",
    "by way of another name": "ln -s .env other; cat other; ln .env hard; cat hard; rm -f other hard",
    "from one name to the other": (
        "ln {root}/.env /workspace/hard; ln /workspace/.env {root}/hard; mv /workspace/.env {root}/moved;"
        " mv {root}/deep /workspace/shallow; mv /workspace/deep {root}/shallow; cat hard moved shallow/er/.env;"
        " rm -rf hard moved shallow"
    ),
    "above the other name": "cat /workspace/..{state}/state.db /workspace/../..{root}/.env /workspace/..{root}/keys/*",
    "after moving its folder": "mv deep shallow; cat shallow/er/.env; rm -rf shallow",
    "the whole workspace": "grep -r -e 'the secret' . /workspace/ 2>/dev/null | grep -v -e 'bashrc' -e '.config/git'",
    "keys of the user": 'cat "$HOME/.ssh/id_rsa"',
    "the state": "cat {state}/state.db",
    "the runtime folder": "cat {runtime}/*.json",
    "through the root of another process": "cat /proc/1/root{state}/state.db /proc/*/root{root}/.env",
    "by a descriptor of another process": "cat /proc/*/fd/*/state.db /proc/1/cwd/.env",
    "in copies": "cp -r . /tmp/copy; cat /tmp/copy/.env /tmp/copy/keys/*",
}


@pytest.mark.parametrize("what", READS)
def test_cannot_read(scene: Scene, machine: Machine, what: str) -> None:
    command = READS[what].replace("{state}", str(machine.state)).replace("{runtime}", str(machine.runtime))
    assert SECRET not in attempt(scene, machine, command.replace("{root}", str(machine.root)))


def test_what_is_hidden_is_empty(scene: Scene, machine: Machine) -> None:
    outcome = scene.run(
        "for f in .env /workspace/.env; do [ -f $f ] && [ ! -s $f ] && echo empty; done; echo keys/*",
        **machine.confinement,  # type: ignore[arg-type]
    )
    assert outcome.stdout == "empty\nempty\nkeys/*\n"


def test_nothing_tells_what_is_hidden(scene: Scene, machine: Machine) -> None:
    """The names of secrets are not in a command line or an environment that can be read inside."""
    told = attempt(scene, machine, "cat /proc/*/cmdline /proc/*/environ | tr '\\0' '\\n' | grep -v -e tr -e cat")
    assert str(machine.state) not in told
    assert "keys" not in told


def test_cannot_see_other_files_of_the_machine(scene: Scene, machine: Machine) -> None:
    above = machine.home.parent
    (above / "outside").write_text(SECRET)
    seen = attempt(
        scene,
        machine,
        f"cat {above}/outside /workspace/..{above}/outside /etc/shadow /workspace/../../etc/shadow {__file__};"
        f" echo {above}/* /srv/* /mnt/* /root/* /workspace/../srv/*",
    )
    assert SECRET not in seen
    assert "root:" not in seen
    assert str(above / "outside") + " /srv" not in seen


def test_cannot_run_in_a_hidden_folder(make_scene: MakeScene) -> None:
    scene = make_scene("bubblewrap")
    (scene.folder / "keys/below").mkdir(parents=True)
    with pytest.raises(PermissionDenied, match="working directory"):
        scene.run("true", cwd="keys/below", hidden=("keys",))


# -- writing

WRITES = {
    "outside": "echo x > {home}/../outside",
    "into home": 'echo x > "$HOME/.bashrc"; echo x >> "$HOME/.profile" && rm -f "$HOME/.profile"',
    "into the system": "touch /usr/x /usr/local/bin/x /etc/x /x /bin/x",
    "a read-only file": "echo x > settings.json; echo x > /workspace/settings.json",
    "a read-only file, by replacing it": "echo x > new; mv -f new settings.json; rm -f new; ln -sf .env settings.json",
    "a read-only file, from one name to the other": (
        "mv /workspace/settings.json {root}/s; mv {root}/settings.json /workspace/s; ln settings.json {root}/hard;"
        " echo x > new; ln -f new /workspace/settings.json; mv -f {root}/new /workspace/settings.json; rm -f new s hard"
    ),
    "the other name": "rm -f /workspace; mv /workspace /w; umount -l /workspace; rmdir /workspace; mkdir /workspace2",
    "a read-only file, by removing it": "rm -f settings.json; unlink settings.json",
    "the configuration of git": "echo x >> .git/config; git config core.fsmonitor ./evil",
    "a hook": "echo x > .git/hooks/pre-commit; mv .git/hooks .git/old; rm -rf .git/hooks",
    "a git folder of its own": "mv .git moved; rm -rf .git/config; mkdir .git; echo x > .git/config",
    "a git folder of its own, by exchange": (
        'mkdir -p x/.git && python3 -c \'import os; os.rename(".git", "x/.git")\'; rm -rf x'
    ),
    "a hidden file": "echo x > .env; rm -f .env; mv .env .env2",
    "a hidden folder": "echo x > keys/b; rm -rf keys; mv keys keys2",
    "what leads to a hidden file": "mv deep other; mkdir -p deep/er; rm -rf deep",
    "the state": "echo x > {state}/state.db; rm -rf {state}; mkdir -p {state}/x",
    "what leads to the state": "mv {home}/.local {home}/.old; rm -rf {home}/.local",
    "a configuration below home": (
        "mv {home}/.config {home}/c; mkdir -p {home}/.config/git; echo x > {home}/.config/git/config"
    ),
    "by mounting": "mount --bind /tmp .git; mount -o remount,rw,bind settings.json; umount .env; umount -l keys;"
    " umount -l /workspace/.env; mount -o remount,rw,bind /workspace/settings.json; echo x > /workspace/settings.json",
    "through /proc": "echo x > /proc/self/root{root}/settings.json; echo x > /proc/1/root{root}/.git/config",
}


@pytest.mark.parametrize("what", WRITES)
def test_cannot_write(scene: Scene, machine: Machine, what: str) -> None:
    before = machine.snapshot()
    command = WRITES[what]
    for word in ("home", "state", "root"):
        command = command.replace(f"{{{word}}}", str(getattr(machine, word)))
    attempt(scene, machine, f"{{ {command}; }} 2>/dev/null; true")
    assert machine.snapshot() == before


def test_what_is_not_guarded_can_be_written(scene: Scene, machine: Machine) -> None:
    command = (
        "echo a > new && mkdir -p sub/folder && echo b > /workspace/sub/b && echo c > .git/index && echo d > deep/er/d"
        " && rm new && mv sub moved && cat moved/b .git/index deep/er/d && echo x > /tmp/t && cat settings.json"
    )
    assert scene.run(command, **machine.confinement).stdout == "b\nc\nd\n{}"  # type: ignore[arg-type]
    assert (machine.root / "moved/b").read_text() == "b\n"


def test_nothing_is_writable_where_policy_only_lets_read(scene: Scene, machine: Machine) -> None:
    """Neither in the folders above what is hidden, which are mounts of their own where the rest is writable."""
    before = machine.snapshot()
    tries = "for folder in . .git deep deep/er keys; do touch $folder/new && echo made; done; rm -f settings.json .env"
    command = f"cd $0 || exit 1; {{ {tries}; }} 2>/dev/null; cat settings.json .env; touch /tmp/t"
    for place in (str(machine.root), "/workspace"):
        outcome = scene.run(
            ("sh", "-c", command, place), hidden=machine.confinement["hidden"], read_only=(".",), pinned=()
        )
        assert (outcome.exit_code, outcome.stdout) == (0, "{}")
    assert machine.snapshot() == before


def test_the_workspace_stands_at_both_names(scene: Scene, machine: Machine) -> None:
    """Mounted: a link would be shown by `find` and `ls -l` instead of what it leads to."""
    outcome = scene.run(
        "find . | sort; echo --; find /workspace | sort | sed 's|^/workspace|.|'; cd /workspace; pwd -P",
        **machine.confinement,  # type: ignore[arg-type]
    )
    here, _, there = outcome.stdout.partition("--\n")
    assert "./deep/er/.env\n" in here
    assert there == f"{here}/workspace\n"


def test_no_stray_mount_point_stays(scene: Scene, machine: Machine) -> None:
    """Guards for what is not there are not made, on the host least of all."""
    before = machine.snapshot()
    top = os.listdir("/")
    missing = ("absent", "gone/.env", ".cws-policy.json", "settings.json/below")
    scene.run("true", hidden=missing, read_only=missing, pinned=missing)
    assert machine.snapshot() == before
    assert os.listdir("/") == top
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(machine.home) not in mounts


def test_a_workspace_that_is_hidden_itself(make_scene: MakeScene, name: str, tmp_path: Path) -> None:
    scene = make_scene(name, tmp_path / "state", secrets=(tmp_path / "state",))
    with pytest.raises(PermissionDenied, match="protected"):
        scene.run("touch begun")


# -- the rest of the machine


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A TCP port as Jupyter's, a socket in the workspace's parent, an abstract one. They accept whoever comes."""
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        path = f"/tmp/wap-{os.getpid()}.sock"
        unix.bind(path)
        stack.callback(os.unlink, path)
        abstract.bind(f"\0wap-{os.getpid()}")
        for server in (unix, abstract):
            server.listen()
        yield {
            "tcp": f"socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), 2)",
            "unix": f"socket.socket(socket.AF_UNIX).connect({path!r})",
            "abstract": f"socket.socket(socket.AF_UNIX).connect('\\0wap-{os.getpid()}')",
        }


@pytest.mark.parametrize("kind", ["tcp", "unix", "abstract"])
def test_cannot_reach_what_listens_on_the_host(
    make_scene: MakeScene, name: str, listening: dict[str, str], kind: str
) -> None:
    (make_scene("local").folder / "try.py").write_text(f"import socket\n{listening[kind]}\nprint('connected')\n")
    command = (sys.executable, "try.py")
    assert make_scene("local").run(command).stdout == "connected\n"
    assert make_scene(name).run(command).stdout == ""


def test_no_network_but_loopback(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name)
    outcome = scene.run((sys.executable, "-c", "import socket; print({n for _, n in socket.if_nameindex()} - {'lo'})"))
    assert outcome.stdout in ("set()\n", ""), outcome


def test_network_when_it_is_granted(make_scene: MakeScene, listening: dict[str, str]) -> None:
    (make_scene("local").folder / "try.py").write_text(f"import socket\n{listening['tcp']}\nprint('connected')\n")
    assert make_scene("bubblewrap").run((sys.executable, "try.py"), network=True).stdout == "connected\n"


def test_cannot_see_or_signal_the_server(make_scene: MakeScene, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = make_scene(name)
    mark = "wap-test-secret-of-the-server"
    monkeypatch.setenv("JUPYTER_TOKEN", mark)
    outcome = scene.run(
        f"cat /proc/*/environ 2>/dev/null | grep -c {mark}; cat /proc/*/cmdline | tr '\\0' ' ' | grep -c py[t]est;"
        f" kill -0 {os.getpid()} 2>/dev/null || echo no such process; cat /proc/[0-9]*/comm | wc -l"
    )
    first, second, third, processes = outcome.stdout.splitlines()
    assert (first, second, third) == ("0", "0", "no such process")
    assert int(processes) < 10


PRIVILEGES = {
    "capabilities": ("grep -e ^CapEff -e ^CapPrm -e ^CapInh /proc/self/status | grep -v '0000000000000000$'", ""),
    "new user namespaces": ("unshare --user true 2>/dev/null && echo new", ""),
    "new mount namespaces": ("unshare --mount true 2>/dev/null && echo new", ""),
    "another user": ("setpriv --reuid 12345 --clear-groups true 2>/dev/null && echo another", ""),
    "devices": (
        "mknod null c 1 3 2>/dev/null && echo made; echo /dev/sd* /dev/vd* /dev/mem",
        "/dev/sd* /dev/vd* /dev/mem\n",
    ),
    "chroot": ("chroot / true 2>/dev/null && echo changed", ""),
    "setuid of another": ("chown 12345 file 2>/dev/null && echo given", ""),
    # To the time that it is: should it ever work, nothing is lost but a fraction of a second.
    "the clock": ('date -s "@$(date +%s)" 2>/dev/null >&2 && echo set', ""),
    "settings of the kernel": ("f=/proc/sys/kernel/panic; { cat $f > $f; } 2>/dev/null && echo set", ""),
    "any setting of the kernel": (
        "for f in $(find /proc -path '/proc/[0-9]*' -prune -o -path /proc/pressure -prune -o -type f -print); do"
        " case $f in /proc/self/*|/proc/thread-self/*) ;; *) [ -w $f ] && echo $f ;; esac; done 2>/dev/null; true",
        "",
    ),
    "the hostname": ('hostname "$(hostname)" 2>/dev/null && echo set', ""),
}


OF_THE_HOSTS_KERNEL = {"new user namespaces", "new mount namespaces", "any setting of the kernel"}
"""The files of gVisor belong to the sandbox's own kernel, which no other process has."""


@pytest.mark.parametrize("what", PRIVILEGES)
def test_cannot_gain_privileges(make_scene: MakeScene, name: str, what: str) -> None:
    if name == "gvisor" and what in OF_THE_HOSTS_KERNEL:
        pytest.skip("gvisor has a kernel of its own")
    if os.geteuid() != 0 and what == "any setting of the kernel":
        pytest.skip("an ordinary user may set those of the IPC namespace, which is the command's own")
    scene = make_scene(name)
    (scene.folder / "file").touch()
    command, expected = PRIVILEGES[what]
    assert scene.run(command).stdout == expected


def test_no_new_privileges(make_scene: MakeScene) -> None:
    """Test bubblewrap only: gVisor does not report it, and a setuid program gains nothing there either."""
    assert make_scene("bubblewrap").run("grep NoNewPrivs /proc/self/status").stdout.split() == ["NoNewPrivs:", "1"]


KEYS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1:]:
    libc.syscall(250, 1, None)  # a session of its own, as after a login
    libc.syscall(248, b"user", b"wap-test-key", b"secret", 6, -3)
print(libc.syscall(250, 10, -3, b"user", b"wap-test-key", 0) > 0)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are this machine's")
def test_cannot_use_the_keys_of_the_servers_session(make_scene: MakeScene) -> None:
    """Run in a new thread: a thread cannot return to its earlier keyring."""
    scene = make_scene("bubblewrap")
    (scene.folder / "keys.py").write_text(KEYS)
    seen: list[str] = []

    def serve() -> None:
        with contextlib.redirect_stdout(io.StringIO()) as said, unittest.mock.patch.object(sys, "argv", ["x", "make"]):
            exec(compile(KEYS, "keys", "exec"), {})  # noqa: S102 - the very program that the command runs
        seen.append(said.getvalue())
        seen.append(scene.run((sys.executable, "keys.py")).stdout)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    if seen[0] != "True\n":
        pytest.skip("this kernel has no keyrings")
    assert seen[1] == "False\n"
