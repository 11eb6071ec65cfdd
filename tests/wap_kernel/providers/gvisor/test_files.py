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
from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
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
    class Late(GvisorSandbox):
        def __init__(self, *arguments: object, **options: object) -> None:
            (workspace / ".env").unlink(missing_ok=True)
            super().__init__(*arguments, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(gvisor, "GvisorSandbox", Late)
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
