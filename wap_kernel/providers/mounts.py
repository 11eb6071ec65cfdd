"""Plan the mounts of a sandbox, for every provider that shares the host's files. Pure.

The root of a sandbox is an empty tmpfs. Everything is mounted at its own path: the system and the interpreters
read-only, home and the folders for temporary files empty, the workspace writable. The guards hide a path of the
workspace, make it read-only, or keep it from being moved away; they are mounted first, by descriptor, in the namespace
that the sandbox is built in (see `layers/namespace_program.py`), so the workspace comes with them. It is mounted a
second time at `/workspace`; a link would not do, since `ls /workspace` and `find /workspace` stop at one.

A folder above a guard is bound on itself: otherwise `mv .config x; mkdir -p .config/git` would put a file of the
command's own in place of the protected one. The price: the kernel answers a rename across the border of such a folder
with EXDEV, upon which `mv` copies.

Only paths that exist are guarded. What a command creates at another protected path is refused when its changes are
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from wap_kernel.files.interface import FileKind
from wap_kernel.model.command import Confinement
from wap_kernel.model.errors import PermissionDenied, ProviderUnavailable
from wap_kernel.model.paths import relative_to, split_path
from wap_kernel.providers.process.environment import GIT_ATTRIBUTES

ALIAS = "/workspace"
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")


class MountKind(Enum):
    """The kinds of mounts that a plan consists of."""

    READ_ONLY = "read-only"
    """A bind of the host's `source` at `target`, with the mounts below it."""
    WRITABLE = "writable"
    TEMPORARY = "temporary"
    """An empty folder that a command can write and that is gone afterwards."""
    HIDDEN_FOLDER = "hidden folder"
    """An empty folder; other mounts may lie below it, so it becomes read-only when all mounts are made."""
    HIDDEN_FILE = "hidden file"
    """An empty read-only file."""
    LINK = "link"
    """A symbolic link to `source`."""
    COPY = "copy"
    """A second mount, at `target`, of everything that is mounted at `source` and below."""
    PROC = "proc"
    DEV = "dev"


@dataclass(frozen=True)
class Mount:
    """One mount of a sandbox."""

    kind: MountKind
    target: str
    source: str = ""


@dataclass(frozen=True)
class ResolvedPath:
    """The real path of a name on the host, with the links on the way: the path of each, and its target."""

    real: str
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HostPaths:
    """The facts about the host that a plan depends on; `host_paths.py` gathers them."""

    software: tuple[ResolvedPath, ...]
    """Read-only paths: the system's folders, chosen files of /etc, interpreters."""
    temporary: tuple[ResolvedPath, ...]
    """Home, and the folders for temporary files."""
    root_names: tuple[ResolvedPath, ...] = ()
    """Other names of the root."""
    secrets: tuple[str, ...] = ()
    """Real paths that are visible to no command, wherever they lie."""
    lstat_kind: Callable[[str], FileKind | None] = lambda _: None
    """A function that returns the kind of file at an absolute path, or None; it does not follow links."""


@dataclass(frozen=True)
class Guards:
    """The mounts on the workspace itself."""

    mounts: tuple[tuple[str, str], ...] = ()
    """The kind of each mount and its path below the root, upper ones first."""
    read_only: bool = False
    """True if nothing at all may be written."""


class Layout:
    """The mounts for one root; those that all commands have in common are computed once."""

    def __init__(self, root: str, host: HostPaths) -> None:
        if root == "/" or any(relative_to(root, folder) is not None for folder in _KERNEL_FOLDERS):
            raise ProviderUnavailable(
                f"A sandbox cannot be built around the folder {root}: it holds the system itself.",
                hint="Serve a folder of your own, your home folder for example.",
            )
        self._root = root
        self._host = host
        self._common: dict[tuple[FileKind | None, ...], tuple[Mount, ...]] = {}

    def mounts(self, confinement: Confinement) -> tuple[Mount, ...]:
        """Return the mounts in the order in which they are to be made, without the guards."""
        secrets = tuple(map(self._host.lstat_kind, self._host.secrets))  # only these come and go
        if secrets not in self._common:
            self._common = {secrets: _sort_by_depth(_base_mounts(self._root, self._host))}
        if confinement.git_attributes is None:
            return self._common[secrets]
        attributes = Mount(MountKind.READ_ONLY, GIT_ATTRIBUTES, confinement.git_attributes)
        return _sort_by_depth((*self._common[secrets], attributes))

    def guards(self, confinement: Confinement, lstat_kind: Callable[[str], FileKind | None]) -> Guards:
        """Return the guards of the workspace; `lstat_kind` returns the kind of file at a path below the root."""
        secrets = (relative_to(path, self._root) for path in self._host.secrets)
        confinement = replace(
            confinement, hidden=(*confinement.hidden, *(part for part in secrets if part is not None))
        )
        return plan_guards(confinement, lstat_kind)


def to_alias(folder: str, mounts: Iterable[Mount]) -> str:
    """Return the name of a folder of the root below ALIAS, or `folder` where the root is not mounted there."""
    root = next((mount.source for mount in mounts if mount.kind is MountKind.COPY and mount.target == ALIAS), None)
    rest = None if root is None else relative_to(folder, root)
    return folder if rest is None else f"{ALIAS}/{rest}".rstrip("/")


def _sort_by_depth(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the mounts with the upper ones first."""
    return tuple(sorted(mounts, key=lambda mount: mount.target.count("/")))


# -- the mounts of every sandbox


def _base_mounts(root: str, host: HostPaths) -> Iterator[Mount]:
    """Yield the mounts that all commands have in common.

    Of two mounts for the same path the first wins; the deepest mount above a path decides what is visible there.
    """
    yield from (Mount(MountKind.PROC, "/proc"), Mount(MountKind.DEV, "/dev"))
    chosen: dict[str, Mount] = {root: Mount(MountKind.WRITABLE, root, root)}
    candidates = [
        *_secret_masks(host.secrets, host.lstat_kind),  # first: a mask wins over software
        *(Mount(MountKind.READ_ONLY, path.real, path.real) for path in host.software),
        *(Mount(MountKind.TEMPORARY, path.real) for path in host.temporary),
    ]
    for mount in _sort_by_depth(candidates):
        above = _find_above(mount.target, chosen)
        if mount.target not in chosen and _is_needed(mount, above, root, host):
            chosen[mount.target] = mount
    # A mask where nothing of the host is visible would only reveal a name, of a folder in home for example.
    yield from (
        mount for mount in chosen.values() if mount.kind not in _MASK_KINDS or _shows_host(mount.target, chosen)
    )
    yield from _alias_mounts(root, host, chosen)


_MASK_KINDS = (MountKind.HIDDEN_FILE, MountKind.HIDDEN_FOLDER)
_BIND_KINDS = (MountKind.READ_ONLY, MountKind.WRITABLE)


def _is_needed(mount: Mount, above: Mount | None, root: str, host: HostPaths) -> bool:
    if relative_to(mount.target, root) is not None:
        return False  # the guards protect what lies in the workspace
    if any(relative_to(mount.target, folder) is not None for folder in _KERNEL_FOLDERS) or mount.target == "/":
        return False
    if mount.kind in _MASK_KINDS:
        return above is None or above.kind not in _MASK_KINDS
    if above is None or above.kind is MountKind.TEMPORARY:
        return True
    if mount.kind is MountKind.TEMPORARY:
        return above.kind is MountKind.READ_ONLY and host.lstat_kind(mount.target) is FileKind.FOLDER
    return False  # visible already, or to remain hidden


def _shows_host(target: str, chosen: Mapping[str, Mount]) -> bool:
    above = _find_above(target.rpartition("/")[0] or "/", chosen)
    return above is not None and above.kind in _BIND_KINDS


def _find_above(path: str, chosen: Mapping[str, Mount]) -> Mount | None:
    """Return the deepest of `chosen` at or above `path`."""
    candidates = [mount for target, mount in chosen.items() if relative_to(path, target) is not None]
    return max(candidates, key=lambda mount: len(mount.target), default=None)


def _secret_masks(paths: Iterable[str], lstat_kind: Callable[[str], FileKind | None]) -> Iterator[Mount]:
    for path in paths:
        kind = lstat_kind(path)
        if kind is FileKind.FOLDER:
            yield Mount(MountKind.HIDDEN_FOLDER, path)
        elif kind in (FileKind.FILE, FileKind.SPECIAL):
            yield Mount(MountKind.HIDDEN_FILE, path)


def _alias_mounts(root: str, host: HostPaths, chosen: Mapping[str, Mount]) -> Iterator[Mount]:
    paths = (*host.software, *host.temporary, *host.root_names)
    links = dict(link for path in paths for link in path.links)
    if _is_free(ALIAS, chosen):
        links.pop(ALIAS, None)
        yield Mount(MountKind.COPY, ALIAS, root)
    yield from (Mount(MountKind.LINK, path, text) for path, text in links.items() if _is_free(path, chosen))


def _is_free(path: str, chosen: Mapping[str, Mount]) -> bool:
    above = _find_above(path, chosen)
    is_free = not any(relative_to(target, path) is not None for target in chosen)
    return is_free and (above is None or above.kind is MountKind.TEMPORARY)


# -- the guards, which protect parts of the workspace


def plan_guards(confinement: Confinement, lstat_kind: Callable[[str], FileKind | None]) -> Guards:
    """Return the fewest mounts that guard the paths of `confinement`."""
    hidden, read_only, pinned = (
        [tuple(split_path(path)) for path in paths]
        for paths in (confinement.hidden, confinement.read_only, confinement.pinned)
    )
    if () in hidden:
        raise PermissionDenied(
            "The workspace lies in a folder that is protected: no command runs in it.",
            hint="Serve another folder.",
            rule="protected",
        )
    kinds = {path: kind for path in (*hidden, *read_only, *pinned) if path and (kind := lstat_kind("/".join(path)))}
    guards: dict[tuple[str, ...], MountKind] = {}  # from the weakest to the strongest, which overwrites
    for path in kinds:
        for end in range(1, len(path)):
            guards[path[:end]] = MountKind.WRITABLE
    for paths, guard in ((pinned, MountKind.WRITABLE), (read_only, MountKind.READ_ONLY)):
        guards.update((path, guard) for path in paths if _can_be_bound(kinds.get(path)))
    for path in hidden:
        if _can_be_bound(kind := kinds.get(path)):
            guards[path] = MountKind.HIDDEN_FOLDER if kind is FileKind.FOLDER else MountKind.HIDDEN_FILE
    if is_read_only := () in read_only:
        guards[()] = MountKind.READ_ONLY  # a writable folder in a root that is read-only would be a hole
    needed = {
        path: guard
        for path, guard in guards.items()
        if path and not _SUFFICIENT[guard] & {guards[path[:end]] for end in range(len(path)) if path[:end] in guards}
    }
    ordered = sorted(needed, key=lambda path: (len(path), path))
    return Guards(tuple((needed[path].value, "/".join(path)) for path in ordered), is_read_only)


_SUFFICIENT: Mapping[MountKind, frozenset[MountKind]] = {
    MountKind.WRITABLE: frozenset((MountKind.READ_ONLY, *_MASK_KINDS)),
    MountKind.READ_ONLY: frozenset((MountKind.READ_ONLY, *_MASK_KINDS)),
    MountKind.HIDDEN_FILE: frozenset(_MASK_KINDS),
    MountKind.HIDDEN_FOLDER: frozenset(_MASK_KINDS),
}
"""A guard needs no mount of its own below one of these."""


def _can_be_bound(kind: FileKind | None) -> bool:
    """Return whether a mount is possible: not on a link, whose target inside has a real path of its own."""
    return kind not in (None, FileKind.LINK)
