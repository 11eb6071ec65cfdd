"""The mounts of a sandbox, decided from facts about a machine that need not exist."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from wap_kernel.files.interface import FileKind
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import PermissionDenied, ProviderUnavailable
from wap_kernel.providers.mounts import Guards, HostPaths, Layout, Mount, MountKind, ResolvedPath, plan_guards
from wap_kernel.providers.process.environment import GIT_ATTRIBUTES

SYSTEM = (ResolvedPath("/usr"), ResolvedPath("/usr/bin", (("/bin", "usr/bin"),)))
TEMPORARY = (ResolvedPath("/home/u"), ResolvedPath("/tmp"))
SHORT = {
    MountKind.READ_ONLY: "ro",
    MountKind.WRITABLE: "rw",
    MountKind.TEMPORARY: "tmp",
    MountKind.HIDDEN_FOLDER: "hide/",
    MountKind.HIDDEN_FILE: "hide",
}


def host(
    *software: str,
    temporary: tuple[ResolvedPath, ...] = TEMPORARY,
    paths: tuple[ResolvedPath, ...] = (),
    root_names: tuple[ResolvedPath, ...] = (),
    secrets: tuple[str, ...] = (),
    there: Mapping[str, FileKind] | None = None,
) -> HostPaths:
    return HostPaths(
        software=(*SYSTEM, *map(ResolvedPath, software), *paths),
        temporary=temporary,
        root_names=root_names,
        secrets=secrets,
        lstat_kind=({} if there is None else there).get,
    )


def plan(root: str, facts: HostPaths) -> tuple[Mount, ...]:
    return Layout(root, facts).mounts(Confinement())


def shown(mounts: tuple[Mount, ...]) -> list[str]:
    """Render the mounts without those of every sandbox. The order matters only between a folder and its content."""
    usual = {"/proc", "/dev", "/usr", "/bin", "/tmp", "/workspace"}
    return sorted(_short(mount) for mount in mounts if mount.target not in usual)


def _short(mount: Mount) -> str:
    if mount.kind is MountKind.LINK:
        return f"{mount.target} -> {mount.source}"
    assert mount.kind in (*SHORT, MountKind.PROC, MountKind.DEV)
    assert mount.source in ("", mount.target)
    return f"{SHORT.get(mount.kind, mount.kind.value)} {mount.target}"


def test_the_usual_case() -> None:
    assert plan("/home/u/ws", host()) == (
        Mount(MountKind.PROC, "/proc"),
        Mount(MountKind.DEV, "/dev"),
        Mount(MountKind.READ_ONLY, "/usr", "/usr"),
        Mount(MountKind.TEMPORARY, "/tmp"),
        Mount(MountKind.COPY, "/workspace", "/home/u/ws"),
        Mount(MountKind.LINK, "/bin", "usr/bin"),
        Mount(MountKind.TEMPORARY, "/home/u"),
        Mount(MountKind.WRITABLE, "/home/u/ws", "/home/u/ws"),
    )


@pytest.mark.parametrize(
    ("root", "facts", "expected"),
    [
        pytest.param("/home/u", host(), ["rw /home/u"], id="the root is home"),
        pytest.param("/home", host(), ["rw /home"], id="home is below the root"),
        pytest.param("/tmp/ws", host(), ["tmp /home/u", "rw /tmp/ws"], id="below a folder for temporary files"),
        pytest.param("/tmp", host(), ["tmp /home/u"], id="the root is the folder for temporary files"),
        pytest.param("/usr/local/ws", host(), ["tmp /home/u", "rw /usr/local/ws"], id="below the system"),
        pytest.param("/opt/c/ws", host("/opt/c"), ["tmp /home/u", "ro /opt/c", "rw /opt/c/ws"], id="below a prefix"),
        pytest.param("/ws", host("/ws/.venv"), ["rw /ws", "tmp /home/u"], id="a prefix below the root"),
        pytest.param("/opt/c", host("/opt/c"), ["tmp /home/u", "rw /opt/c"], id="the root is a prefix"),
        pytest.param(
            "/ws",
            host("/home/u/.pyenv/versions/3.12", "/home/u/venv"),
            ["rw /ws", "tmp /home/u", "ro /home/u/venv", "ro /home/u/.pyenv/versions/3.12"],
            id="prefixes in home",
        ),
        pytest.param(
            "/ws", host("/opt/c/envs/e", "/opt/c", "/usr/p"), ["rw /ws", "tmp /home/u", "ro /opt/c"], id="nested"
        ),
        pytest.param(
            "/ws",
            host(paths=(ResolvedPath("/data/py", (("/home/u/py", "/data/py"), ("/usr/l", "/data/py"))),)),
            ["rw /ws", "tmp /home/u", "ro /data/py", "/home/u/py -> /data/py"],
            id="a prefix behind links, one of which is in the system and seen there",
        ),
        pytest.param(
            "/data/u",
            host(
                temporary=(ResolvedPath("/data/u", (("/home/u", "/data/u"),)),),
                root_names=(ResolvedPath("/data/u", (("/home/u", "/data/u"),)),),
            ),
            ["rw /data/u", "/home/u -> /data/u"],
            id="home is a link to the root",
        ),
        pytest.param(
            "/ws", host(temporary=(ResolvedPath("/usr/tmp"),), there={"/usr/tmp": FileKind.FOLDER}),
            ["rw /ws", "tmp /usr/tmp"],
            id="a temporary folder in the system",
        ),
        pytest.param(
            "/ws", host(temporary=(ResolvedPath("/usr/missing"),)), ["rw /ws"],
            id="one that is missing there cannot be made",
        ),
        pytest.param(
            "/ws", host(temporary=(ResolvedPath("/"), ResolvedPath("/usr"))), ["rw /ws"], id="home is the system"
        ),
    ],
)  # fmt: skip
def test_where_things_lie(root: str, facts: HostPaths, expected: list[str]) -> None:
    assert shown(plan(root, facts)) == sorted(expected)


@pytest.mark.parametrize(
    ("root", "facts", "expected"),
    [
        ("/ws", host(), [(MountKind.COPY, "/ws")]),
        ("/workspace", host(), [(MountKind.WRITABLE, "/workspace")]),
        ("/workspace/project", host(), []),
        ("/ws", host("/workspace/.venv"), []),
        ("/ws", host(temporary=(ResolvedPath("/workspace"),)), [(MountKind.TEMPORARY, "")]),
        ("/ws", host(root_names=(ResolvedPath("/ws", (("/workspace", "/ws"),)),)), [(MountKind.COPY, "/ws")]),
    ],
)
def test_the_other_name_of_the_workspace(root: str, facts: HostPaths, expected: list[tuple[MountKind, str]]) -> None:
    mounts = plan(root, facts)
    assert [(mount.kind, mount.source) for mount in mounts if mount.target == "/workspace"] == expected


def test_the_file_of_gits_attributes_is_mounted_where_git_reads_it() -> None:
    mounts = Layout("/ws", host()).mounts(Confinement(git_attributes="/state/attributes"))
    assert Mount(MountKind.READ_ONLY, GIT_ATTRIBUTES, "/state/attributes") in mounts


@pytest.mark.parametrize(
    ("root", "facts", "expected"),
    [
        pytest.param(
            "/ws", host("/opt/c", secrets=("/opt/c/key",), there={"/opt/c/key": FileKind.FILE}),
            ["rw /ws", "tmp /home/u", "ro /opt/c", "hide /opt/c/key"], id="in a prefix",
        ),
        pytest.param(
            "/ws",
            host(secrets=("/home/u/s", "/var/s"), there={"/home/u/s": FileKind.FOLDER, "/var/s": FileKind.FOLDER}),
            ["rw /ws", "tmp /home/u"], id="where nothing of the host is seen",
        ),
        pytest.param("/ws", host("/opt", secrets=("/opt/key",)), ["rw /ws", "tmp /home/u", "ro /opt"], id="missing"),
        pytest.param(
            "/ws", host("/opt", "/opt/s", secrets=("/opt/s",), there={"/opt/s": FileKind.FOLDER}),
            ["rw /ws", "tmp /home/u", "ro /opt", "hide/ /opt/s"], id="software that is a secret",
        ),
        pytest.param(
            "/ws", host("/home/u/s", secrets=("/home/u/s",), there={"/home/u/s": FileKind.FOLDER}),
            ["rw /ws", "tmp /home/u"], id="software that is a secret in home",
        ),
        pytest.param(
            "/ws", host(secrets=("/ws/a/s",), there={"/ws/a/s": FileKind.FOLDER}),
            ["rw /ws", "tmp /home/u"], id="in the workspace, where a guard hides it",
        ),
        pytest.param(
            "/opt/s/ws", host("/opt", secrets=("/opt/s",), there={"/opt/s": FileKind.FOLDER}),
            ["ro /opt", "tmp /home/u", "hide/ /opt/s", "rw /opt/s/ws"], id="the workspace lies in it",
        ),
        pytest.param(
            "/ws", host("/opt", "/opt/s/py", secrets=("/opt/s",), there={"/opt/s": FileKind.FOLDER}),
            ["rw /ws", "ro /opt", "tmp /home/u", "hide/ /opt/s"], id="a prefix in it stays hidden",
        ),
    ],
)  # fmt: skip
def test_secrets(root: str, facts: HostPaths, expected: list[str]) -> None:
    assert shown(plan(root, facts)) == sorted(expected)


def test_a_secret_that_appears_later_is_masked() -> None:
    there: dict[str, FileKind] = {}
    layout = Layout("/ws", host("/opt", secrets=("/opt/key",), there=there))
    assert "hide /opt/key" not in shown(layout.mounts(Confinement()))
    there["/opt/key"] = FileKind.FILE
    assert "hide /opt/key" in shown(layout.mounts(Confinement()))


# -- guards

FILES = {
    ".env": FileKind.FILE,
    ".git": FileKind.FOLDER,
    ".git/config": FileKind.FILE,
    "a/b/.env": FileKind.FILE,
    "a/b": FileKind.FOLDER,
    "link": FileKind.LINK,
    "pipe": FileKind.SPECIAL,
}


def listed(guards: Guards) -> list[str]:
    short = {kind.value: name for kind, name in SHORT.items()}
    return [f"{short[kind]} {path}" for kind, path in guards.mounts]


@pytest.mark.parametrize(
    ("confinement", "expected"),
    [
        (Confinement(), []),
        (Confinement(hidden=(".env",)), ["hide .env"]),
        (Confinement(hidden=("pipe", "missing", "link")), ["hide pipe"]),
        (Confinement(hidden=("a/b/.env",)), ["rw a", "rw a/b", "hide a/b/.env"]),
        (Confinement(hidden=("a/b", "a/b/.env")), ["rw a", "hide/ a/b"]),
        (Confinement(hidden=("a/b/.env",), read_only=("a/b",)), ["rw a", "ro a/b", "hide a/b/.env"]),
        (Confinement(hidden=("a/b",), read_only=("a/b/.env",)), ["rw a", "hide/ a/b"]),
        (Confinement(read_only=(".git/config",), pinned=(".git",)), ["rw .git", "ro .git/config"]),
        (Confinement(read_only=(".git", ".git/config"), pinned=(".git",)), ["ro .git"]),
        (Confinement(hidden=(".env",), read_only=(".env",), pinned=(".env",)), ["hide .env"]),
        (Confinement(pinned=("missing", "link", ".git")), ["rw .git"]),
    ],
)
def test_guards(confinement: Confinement, expected: list[str]) -> None:
    """The upper ones first: a guard is mounted on what it stands on."""
    guards = plan_guards(confinement, FILES.get)
    assert (listed(guards), guards.read_only) == (expected, False)


@pytest.mark.parametrize(
    ("confinement", "expected"),
    [
        (Confinement(read_only=(".",)), []),
        (Confinement(hidden=("a/b/.env",), read_only=(".",)), ["hide a/b/.env"]),
        (Confinement(hidden=("a/b",), read_only=(".", ".git/config"), pinned=(".git",)), ["hide/ a/b"]),
    ],
)
def test_a_root_in_which_nothing_is_writable(confinement: Confinement, expected: list[str]) -> None:
    """The root is read-only, and no mount below it opens a folder again."""
    guards = plan_guards(confinement, FILES.get)
    assert (listed(guards), guards.read_only) == (expected, True)


def test_a_secret_in_the_workspace_is_hidden_from_every_command() -> None:
    layout = Layout("/ws", host(secrets=("/ws/a/b", "/wsx/a", "/home/u/s")))
    assert listed(layout.guards(Confinement(hidden=(".env",)), FILES.get)) == ["hide .env", "rw a", "hide/ a/b"]


@pytest.mark.parametrize("root", ["/", "/proc", "/proc/1", "/sys/fs", "/dev/shm/ws"])
def test_a_root_that_holds_the_system(root: str) -> None:
    with pytest.raises(ProviderUnavailable, match="holds the system"):
        plan(root, host())


@pytest.mark.parametrize(("confinement", "secrets"), [(Confinement(hidden=(".",)), ()), (Confinement(), ("/ws",))])
def test_a_root_that_is_hidden_itself(confinement: Confinement, secrets: tuple[str, ...]) -> None:
    with pytest.raises(PermissionDenied, match="protected"):
        Layout("/ws", host(secrets=secrets)).guards(confinement, FILES.get)
