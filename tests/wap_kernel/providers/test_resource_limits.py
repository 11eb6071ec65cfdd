"""Limits hold against commands that mean it, and leave no control group behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.provider_workspace import MakeScene
from wap_kernel.providers.base import ResourceLimits
from wap_kernel.providers.resource_limits import CommandLimits, ControlGroups, enforced_limits, find_groups

MIB = 1024 * 1024
SMALL = ResourceLimits(processes=40, memory=200 * MIB, file_size=MIB)


def groups_left() -> list[str]:
    return [name for folder in set(find_groups().folders.values()) for name in os.listdir(folder) if _is_ours(name)]


def _is_ours(name: str) -> bool:
    return name.startswith(f"wap-{os.getpid()}-")


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    assert groups_left() == []


def skip_unless_held(limit: str) -> None:
    if not enforced_limits(SMALL)[limit]:
        pytest.skip(f"the limit on {limit} is not held here")


FORKING = """
import os, time
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except BlockingIOError:
    pass
print(count)
"""


def test_a_fork_bomb(make_scene: MakeScene) -> None:
    skip_unless_held("processes")
    scene = make_scene("bubblewrap", resources=SMALL)
    (scene.folder / "forking.py").write_text(FORKING)
    outcome, living = scene.run_marked(("python3", "forking.py"))
    assert 30 < int(outcome.stdout) <= 40
    assert living == []


def test_a_memory_hog(make_scene: MakeScene) -> None:
    """Held for each process alone at least, and for all together where there are control groups."""
    scene = make_scene("bubblewrap", resources=SMALL)
    outcome = scene.run("python3 -c 'x = b\"x\" * (400 << 20); print(len(x))'")
    assert outcome.stdout == ""
    assert outcome.exit_code in (1, 137)  # no memory, or killed
    assert scene.run("echo still works").stdout == "still works\n"


HOG = """
import os, sys, time
x = b"x" * (80 << 20)
open(sys.argv[1], "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
print("survived")
"""


def test_several_memory_hogs_together(make_scene: MakeScene) -> None:
    skip_unless_held("memory")
    scene = make_scene("bubblewrap", resources=SMALL)
    (scene.folder / "hog.py").write_text(HOG)
    all_or_one_dead = "until [ -e 1 -a -e 2 -a -e 3 -a -e 4 ] || [ $(jobs -r | wc -l) -lt 4 ]; do sleep 0.05; done"
    outcome = scene.run(f"for i in 1 2 3 4; do python3 hog.py $i & done; {all_or_one_dead}; touch go; wait")
    assert outcome.stdout.count("survived") < 4


def test_a_large_file(make_scene: MakeScene) -> None:
    scene = make_scene("bubblewrap", resources=SMALL)
    outcome = scene.run("head -c 2000000 /dev/zero > big")
    assert outcome.exit_code != 0
    assert (scene.folder / "big").stat().st_size == MIB


def test_what_lives_in_memory_is_bounded_too(make_scene: MakeScene) -> None:
    skip_unless_held("memory")
    scene = make_scene("bubblewrap", resources=ResourceLimits(processes=None, memory=64 * MIB, file_size=None))
    scene.run("head -c 200000000 /dev/zero > /tmp/big; true")
    assert scene.run("echo still works").stdout == "still works\n"


def test_without_limits_nothing_is_made(make_scene: MakeScene) -> None:
    scene = make_scene("bubblewrap", resources=ResourceLimits(None, None, None))
    assert scene.run("ulimit -f; head -c 2000000 /dev/zero > big && echo big").stdout == "unlimited\nbig\n"


# -- where control groups are found, on machines as data


def machine(tmp_path: Path, cgroup: str, mounts: dict[str, str]) -> str:
    """`mounts`: folder below tmp_path -> type and options."""
    lines = []
    for number, (folder, kind) in enumerate(mounts.items()):
        fstype, _, options = kind.partition(" ")
        lines.append(f"{number} 1 0:{number} / {tmp_path}/{folder} rw shared:1 - {fstype} {fstype} {options or 'rw'}")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mountinfo").write_text("\n".join(lines) + "\n")
    (tmp_path / "proc/cgroup").write_text(cgroup)
    return str(tmp_path / "proc")


def group(folder: Path, controllers: str | None = None) -> None:
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    if controllers is not None:
        (folder / "cgroup.subtree_control").write_text(controllers)


def test_version_1(tmp_path: Path) -> None:
    group(tmp_path / "pids/me")
    group(tmp_path / "memory")
    proc = machine(
        tmp_path,
        "3:pids:/me\n2:memory:/\n1:name=systemd:/\n0::/\n",
        {"pids": "cgroup rw,pids", "memory": "cgroup rw,memory", "unified": "cgroup2"},
    )
    found = find_groups(proc)
    assert found.folders == {"processes": f"{tmp_path}/pids/me", "memory": f"{tmp_path}/memory"}
    assert found.can_move_threads


def test_version_2_beside_our_own_group(tmp_path: Path) -> None:
    group(tmp_path / "cg/user/app", "")
    (tmp_path / "cg/user/cgroup.procs").touch()
    (tmp_path / "cg/user/cgroup.subtree_control").write_text("memory pids\n")
    found = find_groups(machine(tmp_path, "0::/user/app\n", {"cg": "cgroup2"}))
    assert set(found.folders.values()) == {f"{tmp_path}/cg/user"}
    assert found.files["memory"][0] == "memory.max"
    assert not found.can_move_threads


def test_version_2_that_was_not_delegated(tmp_path: Path) -> None:
    group(tmp_path / "cg/app", "")
    assert find_groups(machine(tmp_path, "0::/app\n", {"cg": "cgroup2"})) == ControlGroups()


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    found = find_groups(str(tmp_path))
    assert found == ControlGroups()
    assert enforced_limits(SMALL, found)["memory"] is False
    assert enforced_limits(SMALL, found)["file size"] is True
    assert enforced_limits(ResourceLimits(None, None, None), found) == {}


def test_groups_of_a_server_that_is_dead_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    group(tmp_path / "pids")
    for name in (f"wap-{ended.pid}-1", f"wap-{os.getpid()}-1", "another"):
        (tmp_path / "pids" / name).mkdir()
    find_groups(machine(tmp_path, "3:pids:/\n", {"pids": "cgroup rw,pids"}))
    assert sorted(os.listdir(tmp_path / "pids")) == ["another", "cgroup.procs", f"wap-{os.getpid()}-1"]


def test_the_values_that_are_set(tmp_path: Path) -> None:
    """Use a folder outside of the kernel's, which cannot be removed while files are in it."""
    files = {"processes": ["pids.max"], "memory": ["memory.max", "memory.swap.max=0?"]}
    groups = ControlGroups({"processes": str(tmp_path), "memory": str(tmp_path)}, files)
    with ExitStack() as stack:
        CommandLimits(stack, SMALL, groups)
        (made,) = tmp_path.iterdir()
        assert {file.name: file.read_text() for file in made.iterdir()}["memory.max"] == str(200 * MIB)
        assert (made / "memory.swap.max").read_text() == "0"
        for file in made.iterdir():
            file.unlink()
    assert list(tmp_path.iterdir()) == []
