"""Files in a gVisor sandbox: the same on both sides, but for what is guarded."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gvisor_sandboxes import PATIENCE, furnished, providing, run
from wap_kernel.model.command import Command, Confinement
from wap_kernel.model.errors import Code, Conflict, ProviderUnavailable, WapError
from wap_kernel.providers.base import Probe
from wap_kernel.providers.gvisor import provider as gvisor
from wap_kernel.providers.gvisor.provider import GvisorProvider
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox


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


@pytest.fixture(scope="module")
def guarding(tmp_path_factory: pytest.TempPathFactory, works: Probe) -> Iterator[GvisorProvider]:
    with providing(furnished(tmp_path_factory.mktemp("guarded") / "ws")) as provider:
        yield provider


@pytest.mark.parametrize(("command", "text", "is_there"), GUARDS, ids=[case[0] for case in GUARDS])
def test_guards(guarding: GvisorProvider, command: str, text: str, is_there: bool) -> None:
    assert (text in run(guarding, command).stdout) is is_there
    for name in (".env", "keys/private", ".git/config"):
        assert Path(guarding.files.path, name).read_text() == "SECRET"


def test_there_may_be_any_number_of_guards(provider: GvisorProvider, workspace: Path) -> None:
    """A build of runsc has a descriptor for each mount, and fails with some 200; guards are none of them."""
    names = tuple(f"secret {number}" for number in range(600))
    for name in names:
        (workspace / name).write_text("SECRET")
    command = "cat secret* /workspace/secret*; echo secret* | wc -w"
    assert run(provider, command, confinement=Confinement(hidden=names)).stdout == "1200\n"


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
    class Late(GvisorSandbox):
        def __init__(self, *arguments: object, **options: object) -> None:
            (workspace / ".env").unlink(missing_ok=True)
            super().__init__(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(gvisor, "GvisorSandbox", Late)
    with pytest.raises(Conflict, match="were changed"):
        run(provider, "touch begun")
    assert sorted(path.name for path in workspace.iterdir()) == [".git", "keys"]
    assert run(provider, "cat keys/*; echo done").stdout == "done\n"


TRICKS = [
    "os.truncate('.git/config', 0)",
    "os.chmod('.git/config', 0o777)",
    "os.utime('.git/config', (0, 0))",
    "os.ftruncate(os.open('.git/config', os.O_RDWR), 0)",
    "os.open('.git/config', os.O_RDONLY | os.O_TRUNC)",
    "os.rename('.git', 'moved')",
    "os.rename('.git/config', 'moved')",
    "os.unlink('.git/config')",
    "os.rename('made', '.git/config')",
    "os.rename('keys', 'moved')",
    "os.link('.git/config', 'linked'); os.truncate('linked', 0)",
    "os.chmod('keys', 0o777); open('keys/made', 'w')",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_the_host_holds_the_guards(guarding: GvisorProvider, trick: str) -> None:
    """Whatever gVisor answers: with "directfs" a read-only file was emptied though `open` failed."""
    root = Path(guarding.files.path)
    (root / "made").touch()
    before = {path: path.stat() for path in root.rglob("*")}
    run(guarding, (sys.executable, "-c", f"import os; {trick}"))
    after = {path: path.stat() for path in root.rglob("*")}
    assert {path: (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns) for path, found in after.items()} == {
        path: (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns) for path, found in before.items()
    }


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
    assert outcome.stdout.splitlines()[1:3] == ["-1", "-1"]  # newer builds let it mount over its own view


def test_a_folder_to_run_in_whose_name_is_not_utf8_is_refused(provider: GvisorProvider, workspace: Path) -> None:
    (workspace / "odd-\udcff").mkdir()
    before = sorted(workspace.iterdir())
    with pytest.raises(WapError, match=r"not UTF-8: .*odd-\\xff") as refusal:
        provider.run(Command("true", PATIENCE, 1000, cwd="odd-\udcff"))
    assert refusal.value.code is Code.INVALID_ARGUMENT
    assert sorted(workspace.iterdir()) == before


def test_a_name_that_is_not_utf8_is_hidden(provider: GvisorProvider, workspace: Path) -> None:
    (workspace / "odd-\udcff").write_text("SECRET")
    assert run(provider, "cat odd-*; echo done", confinement=Confinement(hidden=("odd-\udcff",))).stdout == "done\n"


def test_a_workspace_that_holds_the_folder_for_temporary_files(
    tmp_path: Path, works: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a sandbox lie elsewhere: below the workspace runsc would see the layer instead of them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("content")
    with providing(tmp_path) as provider:
        assert run(provider, "cat file; ls", confinement=Confinement()).stdout == "contentfile\n"


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
