"""A gVisor sandbox as data: what becomes of each kind of mount, and what no command may replace."""

from __future__ import annotations

from typing import Any

import pytest

from wap_kernel.providers.base import ResourceLimits
from wap_kernel.providers.gvisor.bundle import KEEPER, Bundle, build_bundle, build_process, find_keeper_paths
from wap_kernel.providers.mounts import Mount, MountKind

SYSTEM = Mount(MountKind.READ_ONLY, "/usr", "/usr")
TMP = Mount(MountKind.TEMPORARY, "/tmp")
WORKSPACE = Mount(MountKind.WRITABLE, "/tmp/a/b/ws", "/tmp/a/b/ws")
NO_LIMITS = ResourceLimits(None, None, None)


def make(*mounts: Mount, limits: ResourceLimits = NO_LIMITS, network: bool = False) -> Bundle:
    return build_bundle(mounts, shell="/bin/sh", folder="/private", limits=limits, network=network)


MOUNTS: list[tuple[Mount, list[tuple[str, str, str, list[str]]]]] = [
    (SYSTEM, [("/usr", "bind", "/usr", ["rbind", "ro"])]),
    (WORKSPACE, [("/tmp/a/b/ws", "bind", "/tmp/a/b/ws", ["rbind", "rw"])]),
    (Mount(MountKind.HIDDEN_FILE, "/ws/.env"), [("/ws/.env", "bind", "/private/empty", ["rbind", "ro"])]),
    (Mount(MountKind.HIDDEN_FOLDER, "/ws/keys"), [("/ws/keys", "bind", "/private/hidden-0", ["rbind", "ro"])]),
    (TMP, [("/tmp", "tmpfs", "tmpfs", ["mode=1777"])]),
    (Mount(MountKind.PROC, "/proc"), [("/proc", "proc", "proc", ["ro"]), ("/sys", "sysfs", "sysfs", ["ro"])]),
    (Mount(MountKind.DEV, "/dev"), [("/dev", "dev", "dev", []), ("/dev/shm", "tmpfs", "tmpfs", ["mode=1777"])]),
    (Mount(MountKind.LINK, "/bin", "usr/bin"), []),
    (Mount(MountKind.COPY, "/workspace", "/ws"), [("/workspace", "bind", "/ws", ["rbind", "rw"])]),
]


@pytest.mark.parametrize(("mount", "expected"), MOUNTS, ids=[mount.kind.value for mount, _ in MOUNTS])
def test_a_mount_in_the_configuration(mount: Mount, expected: list[tuple[str, str, str, list[str]]]) -> None:
    found = make(mount).config["mounts"]
    assert [(oci["destination"], oci["type"], oci["source"], oci.get("options", [])) for oci in found] == expected


def test_every_kind_of_mount_is_in_the_table() -> None:
    assert {mount.kind for mount, _ in MOUNTS} == set(MountKind)


KEPT: list[tuple[str, list[Mount], tuple[str, ...]]] = [
    ("an empty folder is left alone", [TMP], ()),
    ("the way to a mount", [TMP, WORKSPACE], ("/tmp", "/tmp/a", "/tmp/a/b")),
    (
        "not what is mounted there",
        [TMP, WORKSPACE, Mount(MountKind.READ_ONLY, "/tmp/a/b/ws/.git/config")],
        (
            "/tmp",
            "/tmp/a",
            "/tmp/a/b",
        ),
    ),
    (
        "a link, and the way to it",
        [TMP, Mount(MountKind.LINK, "/tmp/x/python", "/usr/bin/python")],
        (
            "/tmp",
            "/tmp/x",
            "/tmp/x/python",
        ),
    ),
    ("nothing outside of temporary folders", [Mount(MountKind.LINK, "/bin", "usr/bin"), SYSTEM], ()),
]


@pytest.mark.parametrize(("mounts", "expected"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT])
def test_what_no_command_may_replace(mounts: list[Mount], expected: tuple[str, ...]) -> None:
    assert find_keeper_paths(mounts) == expected
    arguments = make(*mounts).preparation["args"]
    assert tuple(arguments[arguments.index("--") + 1 :]) == ("/dev", *expected)


def test_links_are_made_outside_except_where_a_temporary_folder_would_cover_them() -> None:
    found = make(TMP, Mount(MountKind.LINK, "/bin", "usr/bin"), Mount(MountKind.LINK, "/tmp/py", "/usr/py"))
    assert found.links == (("/bin", "usr/bin"),)
    assert found.preparation["args"][4:7] == ["/tmp/py", "/usr/py", "--"]


def test_a_hidden_folder_around_the_workspace_has_a_place_for_it() -> None:
    found = make(Mount(MountKind.HIDDEN_FOLDER, "/state"), Mount(MountKind.WRITABLE, "/state/x/ws", "/state/x/ws"))
    assert found.stand_ins == (("/private/hidden-0", ("x/ws",)),)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (NO_LIMITS, {}),
        (ResourceLimits(5, 10, 7), {"RLIMIT_NPROC": 5, "RLIMIT_FSIZE": 7}),
    ],
)
def test_limits_that_gvisor_holds_itself(limits: ResourceLimits, expected: dict[str, int]) -> None:
    found: list[dict[str, Any]] = make(limits=limits).config["process"]["rlimits"]
    assert {limit["type"]: limit["hard"] for limit in found} == expected
    assert all(limit["soft"] == limit["hard"] for limit in found)


def test_process_1_is_told_of_every_folder_that_can_be_written_but_not_in_its_arguments() -> None:
    found = make(SYSTEM, TMP, WORKSPACE, Mount(MountKind.TEMPORARY, "/home/me"))
    assert found.watched == ("/dev/shm", "/tmp", "/home/me")
    assert not any("/home/me" in argument for argument in found.config["process"]["args"])


def test_what_fits_into_a_temporary_folder_is_bounded_by_the_memory() -> None:
    assert make(TMP, limits=ResourceLimits(memory=1000)).config["mounts"][0]["options"] == ["mode=1777", "size=1000"]


def test_commands_have_another_user_than_process_1_and_no_capabilities() -> None:
    command = build_process(["true"], [], "/")
    assert make().config["process"]["user"]["uid"] == KEEPER != command["user"]["uid"]
    assert not any(command["capabilities"].values())
    assert command["noNewPrivileges"] is True


@pytest.mark.parametrize("network", [False, True])
def test_a_network_of_its_own_unless_granted(network: bool) -> None:
    assert ({"type": "network"} in make(network=network).config["linux"]["namespaces"]) is not network
