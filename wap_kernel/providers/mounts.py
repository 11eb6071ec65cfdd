"""What a sandbox shows of the host: an ordered list of mounts, for every provider that shares the host's files. Pure.

The root of a sandbox is an empty tmpfs. Everything stands at its own path: the system and the interpreters read-only,
home and the folders for temporary files empty, the workspace writable, and on top of it the guards: what is hidden,
what is read-only, what cannot be moved away. The workspace stands a second time at `/workspace`, with the same guards:
a mount, since `ls /workspace` and `find /workspace` stop at a link.

A folder above a guard is bound on itself: otherwise `mv .config x; mkdir -p .config/git` would put a file of one's own
where the protected one stood. The price: a rename across the border of such a folder is answered with EXDEV, upon
which `mv` copies.

Only what exists is guarded. A mount point that is missing would have to be made on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from wap_kernel.files.interface import Kind
from wap_kernel.model.errors import PermissionDenied, ProviderUnavailable
from wap_kernel.model.paths import below, split
from wap_kernel.providers.base import Confinement
from wap_kernel.providers.process.environment import GIT_ATTRIBUTES

ALIAS = "/workspace"
_KERNEL = ("/proc", "/sys", "/dev")


class MountKind(Enum):
    READ_ONLY = "read-only"
    """`source` of the host at `target`, with what is mounted below it."""
    WRITABLE = "writable"
    TEMPORARY = "temporary"
    """An empty folder that can be written and is gone afterwards."""
    HIDDEN_FOLDER = "hidden folder"
    """Empty and read-only; `plan` may have put other mounts below it, so it becomes read-only when all are made."""
    HIDDEN_FILE = "hidden file"
    """Empty and read-only."""
    LINK = "link"
    """A symbolic link that says `source`."""
    AGAIN = "again"
    """What is mounted at `source` and below, all of it, at `target` too."""
    PROC = "proc"
    DEV = "dev"


@dataclass(frozen=True)
class Mount:
    kind: MountKind
    target: str
    source: str = ""


@dataclass(frozen=True)
class Place:
    """Where a name leads on the host: to `real`, past `links` (where each stands, and what it says)."""

    real: str
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HostPaths:
    """The facts about the host that decide; `hostpaths.py` gathers them."""

    software: tuple[Place, ...]
    """Read-only: the system's folders, chosen files of /etc, interpreters."""
    temporary: tuple[Place, ...]
    """Home, and the folders for temporary files."""
    root_names: tuple[Place, ...] = ()
    """Further names of the root."""
    secrets: tuple[str, ...] = ()
    """Real paths that are visible to no command, wherever they lie."""
    look: Callable[[str], Kind | None] = lambda _: None
    """What stands at an absolute path; None if nothing does. Links are not followed."""


def plan(root: str, confinement: Confinement, host: HostPaths) -> tuple[Mount, ...]:
    """The mounts in the order in which they are to be made. `root` is a real path."""
    return Layout(root, host).mounts(confinement)


class Layout:
    """The mounts for one root; what all commands have in common is worked out once."""

    def __init__(self, root: str, host: HostPaths) -> None:
        if root == "/" or any(below(root, folder) is not None for folder in _KERNEL):
            raise ProviderUnavailable(
                f"A sandbox cannot be built around the folder {root}: it holds the system itself.",
                hint="Serve a folder of your own, your home folder for example.",
            )
        self._root = root
        self._host = host
        self._common: dict[tuple[Kind | None, ...], tuple[Mount, ...]] = {}

    def mounts(self, confinement: Confinement) -> tuple[Mount, ...]:
        secrets = tuple(map(self._host.look, self._host.secrets))  # they come and go; the rest of the host stays
        if secrets not in self._common:
            self._common = {secrets: _in_order(_base(self._root, self._host))}
        guards = list(_guards(self._root, confinement, self._host))
        if confinement.git_attributes is not None:
            guards.append(Mount(MountKind.READ_ONLY, GIT_ATTRIBUTES, confinement.git_attributes))
        if not guards:
            return self._common[secrets]
        guarded = {guard.target for guard in guards}  # the root too, where nothing at all may be written
        return _in_order((*(mount for mount in self._common[secrets] if mount.target not in guarded), *guards))


def by_alias(folder: str, mounts: Iterable[Mount]) -> str:
    """The name that a folder of the root has below ALIAS, where the root is mounted there too."""
    root = next((mount.source for mount in mounts if mount.kind is MountKind.AGAIN and mount.target == ALIAS), None)
    rest = None if root is None else below(folder, root)
    return folder if rest is None else f"{ALIAS}/{rest}".rstrip("/")


def _in_order(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """What is above comes first."""
    return tuple(sorted(mounts, key=lambda mount: mount.target.count("/")))


# -- what every sandbox has


def _base(root: str, host: HostPaths) -> Iterator[Mount]:
    """Of two that want the same place the first wins; the deepest one above a place decides what is seen there."""
    yield from (Mount(MountKind.PROC, "/proc"), Mount(MountKind.DEV, "/dev"))
    chosen: dict[str, Mount] = {root: Mount(MountKind.WRITABLE, root, root)}
    wanted = [
        *(Mount(MountKind.READ_ONLY, place.real, place.real) for place in host.software),
        *_masks(host.secrets, host.look),
        *(Mount(MountKind.TEMPORARY, place.real) for place in host.temporary),
    ]
    for mount in _in_order(wanted):
        above = _above(mount.target, chosen)
        if mount.target not in chosen and _is_wanted(mount, above, root, host):
            chosen[mount.target] = mount
    # Where nothing of the host is shown, there is nothing to mask: of a folder in home, not even its name.
    yield from (mount for mount in chosen.values() if mount.kind not in _MASKS or _shows_host(mount.target, chosen))
    yield from _other_names(root, host, chosen)


_MASKS = (MountKind.HIDDEN_FILE, MountKind.HIDDEN_FOLDER)
_BINDS = (MountKind.READ_ONLY, MountKind.WRITABLE)


def _is_wanted(mount: Mount, above: Mount | None, root: str, host: HostPaths) -> bool:
    if below(mount.target, root) is not None:
        return False  # what lies in the workspace is the workspace's; the guards say what of it is protected
    if any(below(mount.target, folder) is not None for folder in _KERNEL) or mount.target == "/":
        return False
    if mount.kind in _MASKS:
        return above is None or above.kind not in _MASKS
    if above is None or above.kind is MountKind.TEMPORARY:
        return True
    if mount.kind is MountKind.TEMPORARY:
        return above.kind is MountKind.READ_ONLY and host.look(mount.target) is Kind.FOLDER
    return False  # seen already, or to remain unseen


def _shows_host(target: str, chosen: Mapping[str, Mount]) -> bool:
    above = _above(target.rpartition("/")[0] or "/", chosen)
    return above is not None and above.kind in _BINDS


def _above(path: str, chosen: Mapping[str, Mount]) -> Mount | None:
    """The deepest of `chosen` at or above `path`."""
    found = [mount for target, mount in chosen.items() if below(path, target) is not None]
    return max(found, key=lambda mount: len(mount.target), default=None)


def _masks(paths: Iterable[str], look: Callable[[str], Kind | None]) -> Iterator[Mount]:
    for path in paths:
        kind = look(path)
        if kind is Kind.FOLDER:
            yield Mount(MountKind.HIDDEN_FOLDER, path)
        elif kind in (Kind.FILE, Kind.SPECIAL):
            yield Mount(MountKind.HIDDEN_FILE, path)


def _other_names(root: str, host: HostPaths, chosen: Mapping[str, Mount]) -> Iterator[Mount]:
    places = (*host.software, *host.temporary, *host.root_names)
    links = dict(link for place in places for link in place.links)
    if _is_free(ALIAS, chosen):
        links.pop(ALIAS, None)
        yield Mount(MountKind.AGAIN, ALIAS, root)
    yield from (Mount(MountKind.LINK, path, text) for path, text in links.items() if _is_free(path, chosen))


def _is_free(path: str, chosen: Mapping[str, Mount]) -> bool:
    above = _above(path, chosen)
    is_free = not any(below(target, path) is not None for target in chosen)
    return is_free and (above is None or above.kind is MountKind.TEMPORARY)


def one_by_one(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """The same without AGAIN, for a provider that cannot mount a tree of mounts at once."""
    mounts = tuple(mounts)
    copies = (
        replace(mount, target=f"{again.target}/{rest}".rstrip("/"))
        for again in mounts
        if again.kind is MountKind.AGAIN
        for mount in mounts
        if (rest := below(mount.target, again.source)) is not None
    )
    return _in_order((*(mount for mount in mounts if mount.kind is not MountKind.AGAIN), *copies))


# -- what protects parts of the workspace


def _guards(root: str, confinement: Confinement, host: HostPaths) -> Iterator[Mount]:
    secrets = [part for part in (below(path, root) for path in host.secrets) if part is not None]
    hidden, read_only, pinned = (
        [tuple(split(path)) for path in paths]
        for paths in ((*confinement.hidden, *secrets), confinement.read_only, confinement.pinned)
    )
    if () in hidden:
        raise PermissionDenied(
            "The workspace lies in a folder that is protected: no command runs in it.",
            hint="Serve another folder.",
            rule="protected",
        )
    kinds = {path: kind for path in (*hidden, *read_only, *pinned) if (kind := host.look(_absolute(root, path)))}
    wishes: dict[tuple[str, ...], MountKind] = {}  # from the weakest to the strongest, which overwrites
    for path in kinds:
        for end in range(1, len(path)):
            wishes[path[:end]] = MountKind.WRITABLE
    for paths, guard in ((pinned, MountKind.WRITABLE), (read_only, MountKind.READ_ONLY)):
        wishes.update((path, guard) for path in paths if _can_be_bound(kinds.get(path)))
    for path in hidden:
        if _can_be_bound(kind := kinds.get(path)):
            wishes[path] = MountKind.HIDDEN_FOLDER if kind is Kind.FOLDER else MountKind.HIDDEN_FILE
    for path, guard in wishes.items():
        # The root is one of them: a writable folder in a root that is read-only would be a hole.
        around = {wishes[path[:end]] for end in range(len(path)) if path[:end] in wishes}
        if around & _SUFFICIENT[guard]:
            continue
        target = _absolute(root, path)
        yield Mount(guard, target, "" if guard in _MASKS else target)


_SUFFICIENT: Mapping[MountKind, frozenset[MountKind]] = {
    MountKind.WRITABLE: frozenset((MountKind.READ_ONLY, *_MASKS)),
    MountKind.READ_ONLY: frozenset((MountKind.READ_ONLY, *_MASKS)),
    MountKind.HIDDEN_FILE: frozenset(_MASKS),
    MountKind.HIDDEN_FOLDER: frozenset(_MASKS),
}
"""A guard needs no mount of its own below one of these."""


def _can_be_bound(kind: Kind | None) -> bool:
    """Nothing can be mounted on a link. What it leads to inside has a real path of its own; outside is not shown."""
    return kind not in (None, Kind.LINK)


def _absolute(root: str, path: tuple[str, ...]) -> str:
    return "/".join((root.rstrip("/"), *path))
