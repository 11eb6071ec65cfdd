"""The local provider: contained folder, rebuilt environment, and an end to everything on close."""

from __future__ import annotations

import marshal
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.provider_workspace import Guard, Journal
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, Stream
from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
from wap_kernel.providers.base import Provider
from wap_kernel.providers.local import LocalProvider
from wap_kernel.providers.process import supervisor, supervisor_handle
from wap_kernel.providers.resource_limits import ControlGroups

SERVER = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/home/someone",
    "JUPYTER_TOKEN": "s3cret",
    "JUPYTERHUB_API_TOKEN": "s3cret",
    "AWS_SECRET_ACCESS_KEY": "s3cret",
    "GITHUB_TOKEN": "s3cret",
    "LD_PRELOAD": "s3cret",
    "BASH_ENV": "s3cret",
}

REPORTING_ITS_GRACE = """
supervise = Supervisor.supervise
def report_first(self):
    report(self._status, f"exit {self._grace:g}")
    supervise(self)
Supervisor.supervise = report_first
"""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[LocalProvider]:
    (tmp_path / "ws" / "sub folder").mkdir(parents=True)
    (tmp_path / "ws" / "file").touch()
    (tmp_path / "ws" / "link").symlink_to("sub folder")
    (tmp_path / "ws" / "link to file").symlink_to("file")
    os.mkfifo(tmp_path / "ws" / "fifo")
    (tmp_path / "ws" / "out").symlink_to("..")
    root = Root(str(tmp_path / "ws"), guard=Guard(), journal=Journal())
    provider = LocalProvider(root, server_environment=SERVER, grace=0.1)
    yield provider
    provider.close()
    root.close()


def command(text: str, *, cwd: str = ".", environment: dict[str, str] | None = None) -> Command:
    return Command(text, timeout=60.0, output_limit=10_000, cwd=cwd, environment=environment or {})


def test_it_is_a_provider_and_says_that_it_does_not_confine(provider: LocalProvider) -> None:
    as_provider: Provider = provider
    assert (as_provider.name, as_provider.confines) == ("local", False)
    assert as_provider.files is provider.files


@pytest.mark.parametrize(("cwd", "folder"), [(".", ""), ("sub folder", "/sub folder"), ("link", "/sub folder")])
def test_the_working_directory(provider: LocalProvider, cwd: str, folder: str) -> None:
    assert provider.run(command("pwd", cwd=cwd)).stdout == f"{provider.files.path}{folder}\n"


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("..", Code.PERMISSION_DENIED),
        ("out", Code.PERMISSION_DENIED),
        ("out/ws", Code.PERMISSION_DENIED),
        ("missing", Code.FILE_NOT_FOUND),
        ("file/missing", Code.FILE_NOT_FOUND),
        ("file", Code.INVALID_ARGUMENT),
        ("link to file", Code.INVALID_ARGUMENT),
        ("fifo", Code.INVALID_ARGUMENT),
    ],
)
def test_a_working_directory_that_is_refused(provider: LocalProvider, cwd: str, code: Code) -> None:
    with pytest.raises(WapError) as refusal:
        provider.run(command("touch begun", cwd=cwd))
    assert refusal.value.code is code


def test_a_working_directory_that_is_a_file(provider: LocalProvider) -> None:
    with pytest.raises(WapError) as refusal:
        provider.run(command("true", cwd="file"))
    assert refusal.value.message == "Not a folder: file"
    assert refusal.value.hint
    assert refusal.value.details == {"path": "file"}


def test_five_seconds_between_term_and_kill(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real default, on its way from the provider to the supervisor, which answers it as the exit code here."""
    source = Path(supervisor.__file__).read_text() + REPORTING_ITS_GRACE
    monkeypatch.setattr(supervisor_handle, "_PROGRAM", marshal.dumps(compile(source, "supervisor.py", "exec")))
    assert provider.run(command("true")).exit_code == 0  # "0.1" is not taken for a code
    assert LocalProvider(provider.files, server_environment=SERVER).run(command("true")).exit_code == 5


def test_printenv_shows_no_secret(provider: LocalProvider) -> None:
    outcome = provider.run(command("printenv; set; tr '\\0' '\\n' < /proc/$PPID/environ"))
    assert "HOME=/home/someone" in outcome.stdout.splitlines()
    assert "s3cret" not in outcome.stdout + outcome.stderr


def test_the_callers_variables(provider: LocalProvider) -> None:
    assert provider.run(command("echo $A$LANG", environment={"A": "1", "LANG": "C"})).stdout == "1C\n"


def test_a_refused_variable_starts_nothing(provider: LocalProvider) -> None:
    with pytest.raises(WapError) as refusal:
        provider.run(command("touch begun", environment={"LD_PRELOAD": "x.so"}))
    assert refusal.value.code is Code.PERMISSION_DENIED
    assert not os.path.exists(os.path.join(provider.files.path, "begun"))


def test_close_ends_what_runs_and_refuses_what_comes(provider: LocalProvider) -> None:
    started = threading.Barrier(3)
    outcomes: list[CommandOutcome] = []

    def on_chunk(stream: Stream, chunk: bytes) -> None:
        started.wait()

    def work() -> None:
        outcomes.append(provider.run(command("trap '' TERM; echo started; sleep 1000"), on_chunk=on_chunk))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    provider.close()
    for thread in threads:
        thread.join()
    assert [(outcome.cancelled, outcome.stdout) for outcome in outcomes] == [(True, "started\n")] * 2
    with pytest.raises(ProviderUnavailable):
        provider.run(command("true"))


def test_one_cancel_ends_all_that_listen_to_it(provider: LocalProvider) -> None:
    cancel = CancelToken()
    started = threading.Barrier(3)
    outcomes: list[CommandOutcome] = []

    def work() -> None:
        outcomes.append(
            provider.run(command("echo; sleep 1000"), cancel=cancel, on_chunk=lambda *_: (started.wait(), None)[1])
        )

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    cancel.request()
    cancel.request()
    for thread in threads:
        thread.join()
    assert [outcome.cancelled for outcome in outcomes] == [True, True]


@pytest.mark.parametrize("has_group", [True, False])
def test_what_hides_from_its_supervisor(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, has_group: bool
) -> None:
    """The process has left its session and its parents, cleared its environment, and killed its supervisor.

    Only a control group still knows it; without one it stays, which is documented (docs/security.md).
    """
    if not has_group:
        monkeypatch.setattr(provider, "_groups", ControlGroups())
    elif not provider._groups.folders:
        pytest.skip("no control group can be made here")
    seconds = f"31415.{os.getpid()}"  # nobody else's who tests beside us
    begun = (
        f"for p in $(grep -lzx {seconds} /proc/[0-9]*/cmdline); do grep -qx sleep ${{p%cmdline}}comm && break 2; done"
    )
    script = f"env -i setsid -f sleep {seconds}; while :; do {begun}; done 2>/dev/null; kill -9 $PPID; sleep 1000"
    provider.run(Command(script, timeout=120, output_limit=1000))
    found = psutil.process_iter(["cmdline"])
    left = [process.pid for process in found if process.info["cmdline"] == ["sleep", seconds]]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == (0 if has_group else 1)
