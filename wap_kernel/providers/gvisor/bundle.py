"""Build the OCI bundle of a gVisor sandbox from a list of mounts, and the description of one process. Pure.

Process 1 of a sandbox only answers requests, by a shell's built-ins: it lists the processes, and the files in the
folders that a command can write outside of the workspace. It runs as another user than the commands, so they can
neither signal nor trace it. When its input ends (the server has died), it ends, and with it everything in the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wap_kernel.model.paths import relative_to
from wap_kernel.providers.base import ResourceLimits
from wap_kernel.providers.mounts import Mount, MountKind

KEEPER = 65534
"""The user of process 1. Commands run as 0 without capabilities: outside that is the user of the server."""
SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHARED_MEMORY = "/dev/shm"
_NAMESPACES = ("pid", "ipc", "uts", "mount")

# A name may be anything, also `*`: hence the tests. A folder that process 1 may not read is listed as closed.
_INIT = """\
trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM
processes() { set -- /proc/[0-9]*; echo "$*"; }
files() {
  for folder; do
    if ! [ -r "$folder" ] || ! [ -x "$folder" ]; then printf '%s closed ' "$folder"; fi
    for entry in "$folder"/* "$folder"/.[!.]* "$folder"/..?*; do
      if [ -e "$entry" ] || [ -L "$entry" ]; then printf '%s ' "$entry"; fi
    done
  done
  echo
}
while IFS= read -r request; do
  case $request in
    "watch "*) set -- "$@" "${request#watch }" ;;
    processes) processes ;;
    files) files "$@" ;;
  esac
done
"""


# Commands share a sandbox, one after the other. The paths that they may not replace belong to process 1: /dev, and
# where a temporary folder holds a link or a mount point, that folder (its sticky bit then counts) and all on the way.
_PREPARE = f"""\
set -e
while [ "$1" != -- ]; do mkdir -p "${{1%/*}}"; ln -s "$2" "$1"; shift 2; done
shift
for path; do [ -L "$path" ] || [ -k "$path" ] || chmod 755 "$path"; done
chown -h {KEEPER} "$@"
"""


@dataclass(frozen=True)
class Bundle:
    """The files and processes that a sandbox is created from."""

    config: Mapping[str, Any]
    """The content of config.json."""
    watched: tuple[str, ...]
    """The folders that process 1 lists. They are not in its arguments, which commands can read."""
    links: tuple[tuple[str, str], ...]
    """Links to create below the root folder: the path and the target of each."""
    stand_ins: tuple[tuple[str, tuple[str, ...]], ...]
    """Folders to create on the host in place of hidden folders, with the mount points in each."""
    preparation: Mapping[str, Any]
    """A process to run to its end before the first command."""


def build_bundle(mounts: Sequence[Mount], *, shell: str, folder: str, limits: ResourceLimits, network: bool) -> Bundle:
    """Build the bundle of a sandbox whose own files on the host are in `folder`: `root`, `empty`, `hidden-<n>`."""
    hidden = [mount.target for mount in mounts if mount.kind is MountKind.HIDDEN_FOLDER]
    stand_ins = {target: f"{folder}/hidden-{number}" for number, target in enumerate(hidden)}
    temporary = [mount.target for mount in mounts if mount.kind is MountKind.TEMPORARY]
    links = [(mount.target, mount.source) for mount in mounts if mount.kind is MountKind.LINK]
    late = [link for link in links if any(relative_to(link[0], top) is not None for top in temporary)]
    init = build_process([shell, "-c", _INIT], [SEARCH_PATH], "/", user=KEEPER)
    return Bundle(
        config={
            "ociVersion": "1.0.0",
            "process": {**init, "rlimits": _rlimits(limits)},
            "root": {"path": f"{folder}/root", "readonly": True},
            "hostname": "sandbox",
            "mounts": [
                oci for mount in mounts for oci in _oci_mounts(mount, f"{folder}/empty", stand_ins, limits.memory)
            ],
            "linux": {"namespaces": [{"type": name} for name in (*_NAMESPACES, *(() if network else ("network",)))]},
        },
        watched=(SHARED_MEMORY, *temporary),
        links=tuple(link for link in links if link not in late),
        stand_ins=tuple((stand_in, _mount_points_below(target, mounts)) for target, stand_in in stand_ins.items()),
        preparation=build_process(
            [
                shell,
                "-c",
                _PREPARE,
                "prepare",
                *(word for link in late for word in link),
                "--",
                "/dev",
                *find_keeper_paths(mounts),
            ],
            [SEARCH_PATH],
            "/",
            capabilities=["CAP_CHOWN"],
        ),
    )


def find_keeper_paths(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Return the paths in temporary folders that no command may replace: links, and the way to a mount or a link."""
    targets = {mount.target: mount for mount in mounts}
    paths: list[str] = []
    for mount in mounts:
        path = mount.target if mount.kind is MountKind.LINK else mount.target.rpartition("/")[0]
        way: list[str] = []
        while path and (path not in targets or targets[path].kind is MountKind.LINK):
            way.append(path)
            path = path.rpartition("/")[0]
        if path and targets[path].kind is MountKind.TEMPORARY:
            paths += [path, *reversed(way)]
    return tuple(dict.fromkeys(paths))


def build_process(
    argv: Sequence[str], environment: Sequence[str], cwd: str, *, user: int = 0, capabilities: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the description of one process, for config.json and `runsc exec --process`."""
    sets = ("bounding", "effective", "inheritable", "permitted")
    return {
        "args": list(argv),
        "env": list(environment),
        "cwd": cwd,
        "user": {"uid": user, "gid": user},
        "capabilities": {name: list(capabilities) for name in sets},
        "noNewPrivileges": True,
    }


def _oci_mounts(mount: Mount, empty: str, stand_ins: Mapping[str, str], memory: int | None) -> list[dict[str, Any]]:
    match mount.kind:
        case MountKind.READ_ONLY:
            return [_bind(mount.source, mount.target, "ro")]
        case MountKind.WRITABLE | MountKind.COPY:  # with the guards, which are mounts below it in runsc's namespace
            return [_bind(mount.source, mount.target, "rw")]
        case MountKind.HIDDEN_FILE:
            return [_bind(empty, mount.target, "ro")]
        case MountKind.HIDDEN_FOLDER:
            return [_bind(stand_ins[mount.target], mount.target, "ro")]
        case MountKind.TEMPORARY:
            return [_tmpfs(mount.target, memory)]
        case MountKind.PROC:  # read-only: its settings would stay from one command to the next
            return [_kernel(mount.target, "proc"), _kernel("/sys", "sysfs")]
        case MountKind.DEV:
            return [{"destination": mount.target, "type": "dev", "source": "dev"}, _tmpfs(SHARED_MEMORY, memory)]
        case MountKind.LINK:  # made otherwise
            return []


def _kernel(target: str, kind: str) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": kind, "options": ["ro"]}


def _bind(source: str, target: str, access: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind", access]}


def _tmpfs(target: str, memory: int | None) -> dict[str, Any]:
    size = [] if memory is None else [f"size={memory}"]
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777", *size]}


def _mount_points_below(target: str, mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Return the mount points below a hidden folder; they are folders, since only the workspace can lie there."""
    return tuple(name for mount in mounts if (name := relative_to(mount.target, target)))


def _rlimits(limits: ResourceLimits) -> list[dict[str, Any]]:
    """Return the limits that gVisor enforces itself, also for its root. A cgroup on the host limits memory."""
    values = {"RLIMIT_NPROC": limits.processes, "RLIMIT_FSIZE": limits.file_size}
    return [{"type": name, "soft": value, "hard": value} for name, value in values.items() if value is not None]
