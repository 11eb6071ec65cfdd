"""The layers of a machine: files that appear, change, go away, cannot be read or lead somewhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files.contained.root import Root
from wap_kernel.model.caller import Caller
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import Policy
from wap_kernel.policy.current import CurrentPolicy
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.layers import WORKSPACE_FILE, PolicyFiles
from wap_kernel.policy.paths.protected import ProtectedPaths

Make = Callable[..., PolicyFiles]
PRESET = Policy(name="preset")


class NoJournal:
    """For a root that is only read."""

    def note(self, name: str, path: str) -> None: ...
    def forget(self, name: str) -> None: ...


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def make(tmp_path: Path, root: Path) -> Iterator[Make]:
    guard = ProtectedPaths(hidden=frozenset(), read_only=frozenset())
    with closing(Root(str(root), guard=guard, journal=NoJournal())) as files:

        def made(**variables: str) -> PolicyFiles:
            return PolicyFiles(files, preset=PRESET, administrator=str(tmp_path / "etc.json"), environment=variables)

        yield made


def write(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(fields))


def names(files: PolicyFiles) -> list[str]:
    return [layer.name.rpartition("/")[2] for layer in files.layers()]


def test_the_layers_in_order(make: Make, tmp_path: Path, root: Path) -> None:
    files = make(WAP_POLICY=str(tmp_path / "named.json"))
    write(tmp_path / "etc.json", maxFileSize=3)
    write(tmp_path / "named.json", maxFileSize=2)
    write(root / WORKSPACE_FILE, maxFileSize=1)
    assert names(files) == ["etc.json", "WAP_POLICY", "preset", WORKSPACE_FILE]
    assert [layer.filesystem.max_file_size for layer in files.layers()] == [3, 2, None, 1]
    assert files.effective().max_file_size == 1


def test_what_is_not_there_is_no_layer(make: Make) -> None:
    assert make().layers() == (PRESET,)
    assert make(WAP_POLICY="").layers() == (PRESET,)


def test_nothing_is_parsed_or_compiled_again_until_something_changes(make: Make, root: Path) -> None:
    files = make()
    write(root / WORKSPACE_FILE, maxFileSize=1)
    layers, effective = files.layers(), files.effective()
    assert files.layers() is layers and files.effective() is effective
    (root / WORKSPACE_FILE).touch()
    assert files.layers() is layers and files.effective() is effective
    write(root / WORKSPACE_FILE, maxFileSize=2)
    assert files.effective().max_file_size == 2


def test_a_change_that_keeps_size_and_times_is_seen(make: Make, root: Path) -> None:
    files = make()
    write(root / WORKSPACE_FILE, maxFileSize=1)
    before = (root / WORKSPACE_FILE).stat()
    assert files.effective().max_file_size == 1
    write(root / WORKSPACE_FILE, maxFileSize=2)
    os.utime(root / WORKSPACE_FILE, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.effective().max_file_size == 2


def test_files_that_come_and_go(make: Make, tmp_path: Path, root: Path) -> None:
    files = make()
    assert names(files) == ["preset"]
    for path in (root / WORKSPACE_FILE, tmp_path / "etc.json"):
        write(path, maxFileSize=1)
        assert files.effective().max_file_size == 1
        path.unlink()
        assert files.effective().max_file_size is None
        assert names(files) == ["preset"]


def broken(files: PolicyFiles) -> str:
    refusal = files.effective().broken
    assert refusal is not None
    return refusal.reason


def test_a_file_that_is_named_must_be_there(make: Make, tmp_path: Path) -> None:
    assert "does not exist" in broken(make(WAP_POLICY=str(tmp_path / "missing.json")))
    assert "relative" in broken(make(WAP_POLICY="policy.json"))


def test_a_broken_file_says_where_and_heals(make: Make, root: Path) -> None:
    files = make()
    (root / WORKSPACE_FILE).write_text("{\n  oops")
    assert WORKSPACE_FILE in broken(files) and "line 2" in broken(files)
    write(root / WORKSPACE_FILE)
    assert files.effective().broken is None


OBSTACLES: dict[str, Callable[[Path, Path], None]] = {
    "a link that leads out": lambda path, outside: path.symlink_to(outside),
    "a link that leads nowhere": lambda path, _: path.symlink_to("missing"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a folder": lambda path, _: path.mkdir(),
    "a pipe": lambda path, _: os.mkfifo(path),
    "more than a policy can have": lambda path, _: path.write_bytes(b" " * (1 << 20) + b"{}"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_in_the_workspace_what_cannot_be_read_is_broken(make: Make, tmp_path: Path, root: Path, obstacle: str) -> None:
    write(tmp_path / "outside.json")
    OBSTACLES[obstacle](root / WORKSPACE_FILE, tmp_path / "outside.json")
    assert WORKSPACE_FILE in broken(make())


@pytest.mark.parametrize("obstacle", [name for name in OBSTACLES if name != "a link that leads out"])
def test_of_the_administrator_what_cannot_be_read_is_broken(make: Make, tmp_path: Path, obstacle: str) -> None:
    OBSTACLES[obstacle](tmp_path / "etc.json", tmp_path)
    assert "etc.json" in broken(make())


def test_an_administrator_may_use_links(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "real.json", maxFileSize=1)
    (tmp_path / "etc.json").symlink_to("real.json")
    assert make().effective().max_file_size == 1


def test_a_file_without_permission_is_broken(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the answer of the operating system is given here."""

    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("wap_kernel.policy.layers.os.open", refuse)
    assert "etc.json" in broken(make())


def test_the_policy_of_a_folder_speaks_of_paths_from_there_on(make: Make, root: Path) -> None:
    files = make()
    folder = "odd [x]{y}"
    (root / folder / "deep").mkdir(parents=True)
    assert files.layer_for(folder) is None
    assert files.layer_for("missing/folder") is None
    write(
        root / folder / WORKSPACE_FILE,
        allowedPaths=["src/**"],
        deniedPaths=["*.env", "/top", "conf/{a,b}.yml", "!x.env"],
        effects={"obeyedFiles": ["tasks.json"]},
    )
    layer = files.layer_for(folder)
    assert layer is not None and layer is files.layer_for(folder)
    effective = files.effective().with_layer(layer)
    allowed = {
        f"{folder}/src/a.py": True,
        f"{folder}/src/deep/a.env": False,
        f"{folder}/src/x.env": True,
        f"{folder}/top": False,
        "src/a.py": False,
    }
    assert {path: allows(effective, path) for path in allowed} == allowed
    assert effective.find_obeyed(f"{folder}/src/tasks.json") and not effective.find_obeyed("src/tasks.json")
    assert layer.filesystem.denied_paths[1:4] == tuple(
        rf"odd \[x\]\{{y\}}/{rest}" for rest in ("top", "conf/a.yml", "conf/b.yml")
    )


def allows(effective: EffectivePolicy, path: str) -> bool:
    return effective.refusal(path, Access.READ) is None


def test_only_so_many_folders_are_remembered(make: Make, root: Path) -> None:
    files = make()
    for number in range(300):
        (root / f"f{number}").mkdir()
        write(root / f"f{number}" / WORKSPACE_FILE, maxFileSize=number + 1)
    found = [files.layer_for(f"f{number}") for number in range(300)]
    assert [layer and layer.filesystem.max_file_size for layer in found] == list(range(1, 301))
    assert len(files._known) <= 256


def test_a_bound_policy_tells_agents_from_persons(make: Make, root: Path) -> None:
    (root / "folder").mkdir()
    current = CurrentPolicy(make(), ProtectedPaths(hidden=frozenset(), read_only=frozenset()))
    for caller, by_agent in ((Caller(), False), (Caller(agent="claimed"), False), (Caller(token="t1"), True)):
        policy = current.bind(caller)
        assert policy.by_agent is by_agent
        assert current.narrow(policy, "folder", only=True).by_agent is by_agent
