"""Plan how the changes of a command are applied: which of them are one rename, and in which order. Pure.

    moves out of the way -> folders and moves in -> files -> repositories -> deletions -> times and modes

A created or deleted folder is one unit with everything below, unless something below is refused or moved. What belongs
to one repository's `.git` is one group: its objects come first and its references last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wap_kernel.files.contained.renames import temporary_name
from wap_kernel.model.changes import ABSENT, Change, ChangeKind, ChangeSet, FileImage

IsFolder = Callable[[str], bool]
"""A function that returns whether a folder is at a path of the workspace now."""
GIT = ".git"
_REFERENCES = ("HEAD", "ORIG_HEAD", "packed-refs", "refs")


@dataclass(frozen=True)
class ApplyUnit:
    """Changes that are applied by one step."""

    change: Change
    covered: tuple[Change, ...] = ()
    """The changes below a folder that is created, replaced or deleted as a whole."""
    is_bare: bool = False
    """True if only the folder itself is created; what is below has units of its own."""
    is_helper: bool = False
    """True if the unit is no change of the command, but makes way for others."""

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def group(self) -> str | None:
        """Return the `.git` that the unit belongs to."""
        return find_repository(self.path)

    @property
    def changes(self) -> tuple[Change, ...]:
        return () if self.is_helper else (self.change, *self.covered)


@dataclass(frozen=True)
class ApplyPlan:
    """The units in order, and the paths that cannot be applied since something below them is refused."""

    units: tuple[ApplyUnit, ...]
    impossible: tuple[str, ...] = ()


def plan_apply(changes: ChangeSet, refused: Collection[str], is_folder: IsFolder, token: str) -> ApplyPlan:
    """Return how to apply `changes` except for the `refused` paths and all that is below them.

    A folder that the command created and that is there by now is merged. `token` names a folder for crossing moves.
    """
    above_refused = list_parents(refused)
    left, replaced = _take_replaced([change for change in changes if not is_within(change.path, refused)])
    impossible = [path for path in replaced if path in above_refused]
    left = [change for change in left if not is_within(change.path, impossible)]
    moved = {str(change.source) for change in left if change.kind is ChangeKind.MOVED}
    left.sort(key=lambda change: change.path.split("/"))
    above_moved = list_parents(change.path for change in left if change.kind is ChangeKind.MOVED)
    units: list[tuple[Change, list[Change], bool]] = []
    whole: str | None = None
    for change in left:
        path, before, after = change.path, change.before, change.after
        if whole is not None and path.startswith(whole):
            units[-1][1].append(change)
            continue
        whole, is_bare = None, False
        is_new_folder = change.kind is ChangeKind.CREATED and after.kind == "folder"
        if is_new_folder and is_folder(path) and not is_within(path, moved):
            continue
        if (
            before.kind == "folder"
            and change.kind in (ChangeKind.DELETED, ChangeKind.CHANGED)
            and path in above_refused
        ):
            if change.kind is ChangeKind.CHANGED:
                impossible.append(path)
            continue  # what is refused stays in it
        if change.kind in (ChangeKind.CREATED, ChangeKind.CHANGED, ChangeKind.DELETED):
            is_bare = after.kind == "folder" and (path in above_refused or path in above_moved)
            if not is_bare and "folder" in (before.kind, after.kind):
                whole = f"{path}/"
        units.append((change, [], is_bare))
    joined = [ApplyUnit(change, tuple(covered), is_bare) for change, covered, is_bare in units]
    joined += [ApplyUnit(_make_mode(unit.change), is_helper=True) for unit in joined if _has_other_mode(unit.change)]
    return ApplyPlan(tuple(_order(joined, replaced, is_folder, token)), tuple(impossible))


def _take_replaced(changes: Sequence[Change]) -> tuple[list[Change], dict[str, ApplyUnit]]:
    """Take out the deletions of what stood where a moved folder stands now; they come right before the move."""
    moved = {change.path for change in changes if change.kind is ChangeKind.MOVED}
    left: list[Change] = []
    replaced: dict[str, ApplyUnit] = {}
    top: str | None = None
    for change in changes:
        is_deletion = change.kind is ChangeKind.DELETED
        if is_deletion and top is not None and change.path.startswith(f"{top}/"):
            replaced[top] = replace(replaced[top], covered=(*replaced[top].covered, change))
        elif is_deletion and change.path in moved:
            top = change.path
            replaced[top] = ApplyUnit(change)
        else:
            top = None
            left.append(change)
    return left, replaced


def _has_other_mode(change: Change) -> bool:
    return change.kind is ChangeKind.MOVED and change.before.mode != change.after.mode


def _make_mode(change: Change) -> Change:
    return replace(change, kind=ChangeKind.MODE, source=None)


def map_back(path: str, moves: Iterable[Change]) -> str:
    """Return where a path is before folders are moved."""
    above = [move for move in moves if path.startswith(f"{move.path}/")]
    if not above:
        return path
    nearest = max(above, key=lambda move: len(move.path))
    return f"{nearest.source}{path[len(nearest.path) :]}"


def _order(
    units: list[ApplyUnit], replaced: Mapping[str, ApplyUnit], is_folder: IsFolder, token: str
) -> Iterator[ApplyUnit]:
    moves = [unit for unit in units if unit.change.kind is ChangeKind.MOVED]
    rest = [unit for unit in units if unit.change.kind is not ChangeKind.MOVED]
    sources = {str(unit.change.source) for unit in moves}
    is_crossing = len(moves) > 1 or any(is_folder(unit.path) for unit in moves)
    holding: list[ApplyUnit] = []
    if is_crossing or any(is_within(unit.path, sources) for unit in rest):
        yield from _lift(moves, token)
        folder = temporary_name(token)
        moves = [
            replace(unit, change=replace(unit.change, source=f"{folder}/{number}")) for number, unit in enumerate(moves)
        ]
        holding = [ApplyUnit(Change(folder, ChangeKind.DELETED, FileImage("folder")), is_helper=True)]
    for unit in sorted([*rest, *moves], key=_rank):
        if unit.change.kind is ChangeKind.MOVED and unit.path in replaced:
            yield replaced[unit.path]
        yield unit
    yield from holding


def _lift(moves: list[ApplyUnit], token: str) -> Iterator[ApplyUnit]:
    """Yield moves of the sources into a temporary folder, deepest first, so that folders can swap paths."""
    folder = temporary_name(token)
    yield ApplyUnit(Change(folder, ChangeKind.CREATED, ABSENT, FileImage("folder", 0o700)), (), True, True)
    lifted = [
        replace(unit, change=replace(unit.change, path=f"{folder}/{number}", before=ABSENT), is_helper=True)
        for number, unit in enumerate(moves)
    ]
    yield from sorted(lifted, key=lambda unit: str(unit.change.source).count("/"), reverse=True)


def _rank(unit: ApplyUnit) -> tuple[object, ...]:
    """Return the sort key of a unit."""
    change, names = unit.change, unit.path.split("/")
    repository = find_repository(unit.path)
    if change.kind in (ChangeKind.MODE, ChangeKind.TOUCHED):
        return (5 if change.kind is ChangeKind.MODE else 4, -len(names) if unit.path != "." else 1, names)
    if change.kind is ChangeKind.DELETED:
        return (3, 0 if repository is None else 1, names)
    if repository is not None:
        inside = unit.path[len(repository) + 1 :].split("/")
        if unit.is_bare or not inside[0]:
            part = 0
        else:
            part = 1 if inside[0] == "objects" else 3 if inside[0] in _REFERENCES else 2
        return (2, repository, part, names)
    is_folder = change.after.kind == "folder"
    return (0 if is_folder else 1, names)


def find_repository(path: str) -> str | None:
    """Return the path of the `.git` that a path is or lies in; a worktree's or submodule's is its own."""
    if GIT not in path:
        return None
    names = path.split("/")
    return "/".join(names[: names.index(GIT) + 1]) if GIT in names else None


def is_within(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is one of `folders` or below one."""
    if not folders:
        return False
    names = path.split("/")
    return any("/".join(names[:end]) in folders for end in range(1, len(names) + 1))


def list_parents(paths: Iterable[str]) -> set[str]:
    """Return all folders above `paths`, without the root."""
    found: set[str] = set()
    for path in paths:
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in found:
                break
            found.add(path)
    return found
