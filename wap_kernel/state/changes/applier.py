"""Apply the changes of a command to the workspace: all of them, or all but conflicts, by a journal.

    compare -> stage -> log all -> make one after the other -> sync -> compare what was displaced once more -> finish

When the log is stored, a restart completes the rest. An atomic application that meets a conflict afterwards is rolled
back; that decision is stored too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

from wap_kernel.files.contained.renames import sync_filesystem
from wap_kernel.model.changes import ABSENT, Change, ChangeKind, ChangeSet, FileImage
from wap_kernel.model.errors import NO_SPACE_ERRNOS, NoSpace
from wap_kernel.state.changes.apply_execution import ApplyExecution, is_temporary_path
from wap_kernel.state.changes.apply_plan import IsFolder, plan_apply
from wap_kernel.state.changes.change_log import LoggedChange, make_token
from wap_kernel.state.changes.comparison import ComparedUnit, Comparison
from wap_kernel.state.changes.effect_digest import digest_effect
from wap_kernel.state.changes.folder_cache import FolderCache
from wap_kernel.state.changes.history import ChangeHistory, RecoveredChanges
from wap_kernel.state.changes.image_store import select_unkept
from wap_kernel.state.changes.staged_entries import StagedEntries
from wap_kernel.state.changes.tree_manifest import take_image


@dataclass(frozen=True)
class ApplyResult:
    """The changes that were applied, and the paths where the workspace was left as it is."""

    applied: tuple[Change, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Paths that changed in the workspace too since the layer began; an atomic run with one of them applies nothing."""
    unkept: tuple[str, ...] = ()
    """Paths that were left since their before-images exceed the limits of the store."""


class ChangeApplier:
    """Applies ChangeSets."""

    def __init__(self, history: ChangeHistory) -> None:
        self._history = history

    def apply(
        self,
        upper: str,
        changes: ChangeSet,
        *,
        run: str,
        position: int,
        began_ns: int,
        atomic: bool,
        refused: Collection[str] = (),
        rewritten: Mapping[str, bytes] = MappingProxyType({}),
        overwrite: Collection[str] = (),
        allows_loss: bool = False,
    ) -> ApplyResult:
        """Apply `changes`, whose new files are in the folder `upper` of an overlay.

        What changed in the workspace after `began_ns` is a conflict, except for the paths in `overwrite`. `refused`
        paths, with all below, are not applied. Files in `rewritten` get this content. Whatever is not applied stays in
        `upper`. With `allows_loss`, what is too large for the store is replaced all the same: a person has approved
        that. Raise NoSpace, with the workspace as before, where the disk is full.
        """
        history = self._history
        try:
            with (
                closing(StagedEntries(upper, history.root, history.store)) as staging,
                FolderCache(history.root) as folders,
            ):
                plan = plan_apply(changes, set(refused), self._make_folder_check(folders), make_token())
                comparison = Comparison(folders, plan.units, began_ns, set(overwrite))
                compared = [comparison.compare(unit) for unit in plan.units]
                too_large = {} if allows_loss else self._find_unkept(compared)
                unkept = [path for paths in too_large.values() for path in paths]
                conflicts = [path for each in compared for path in each.conflicts] + list(plan.impossible)
                chosen = _leave_conflicts(compared, {*too_large, *plan.impossible})
                if (atomic and (conflicts or unkept)) or not chosen:
                    return ApplyResult((), tuple(conflicts), tuple(unkept))
                staging.rewrite({path: data for path, data in rewritten.items() if path not in refused})
                try:
                    rows = self._stage(staging, chosen, folders, run, position, allows_loss)
                    sync_filesystem(staging.descriptor)
                    history.step("staged")
                    pending, logged = history.log.begin_apply(rows, is_atomic=atomic)
                except BaseException:
                    staging.forget_copies()
                    raise
                staging.hand_over()
        except OSError as error:
            if error.errno in NO_SPACE_ERRNOS:
                raise NoSpace(
                    "No space left to apply what the command changed, so nothing was changed.",
                    hint="Free some space and try again.",
                ) from error
            raise
        execution = ApplyExecution(history, pending, logged)
        try:
            execution.execute()
        finally:
            staging.close_folders()
        applied_paths = {row.path for row in execution.done}
        applied = [change for each in chosen if each.unit.path in applied_paths for change in each.unit.changes]
        return ApplyResult(tuple(applied), tuple(dict.fromkeys([*conflicts, *execution.conflicts])), tuple(unkept))

    def digest(self, upper: str, changes: Iterable[Change]) -> str:
        """Return a digest of what `apply` would do with `changes` now."""
        return digest_effect(self._history.root, upper, changes)

    def recover(self, run: str) -> RecoveredChanges:
        """Complete or roll back what was being applied when the run's process died."""
        log = self._history.log
        applies, conflicts = log.read_applies(run), list[str]()
        for pending in applies:
            rows = [replace(row, tree=log.read_tree(row)) for row in log.read_range(pending)]
            execution = ApplyExecution(self._history, pending, rows)
            execution.execute(is_recovery=True)
            conflicts += execution.conflicts
        return RecoveredChanges(tuple(pending.position for pending in applies), tuple(dict.fromkeys(conflicts)))

    def _make_folder_check(self, folders: FolderCache) -> IsFolder:
        def is_folder(path: str) -> bool:
            try:
                location = folders.locate(path)
                return take_image(location.fd, location.name).kind == "folder"
            except OSError:
                return False

        return is_folder

    def _find_unkept(self, compared: Sequence[ComparedUnit]) -> dict[str, list[str]]:
        """Return the files whose before-images exceed the limits of the store, by the paths of their units."""
        if self._history.store.is_near(self._history.root.fd):
            return {}
        displaced = {
            each.unit.path: _list_sizes(each)
            for each in compared
            if not (each.conflicts or each.is_needless) and each.unit.change.kind in _DISPLACING
        }
        return {path: list(displaced[path]) for path in sorted(select_unkept(displaced))}

    # -- rows

    def _stage(
        self,
        staging: StagedEntries,
        chosen: Sequence[ComparedUnit],
        folders: FolderCache,
        run: str,
        position: int,
        allows_loss: bool,
    ) -> list[LoggedChange]:
        rows: list[LoggedChange] = []
        last: list[LoggedChange] = []
        opened = self._open_parents(chosen, folders)
        for path, mode in opened.items():
            rows.append(_make_row(run, position, _mode_change(path, mode, mode | 0o700)))
        modes = {each.unit.path for each in chosen if each.unit.change.kind is ChangeKind.MODE}
        for path in sorted(opened.keys() - modes, reverse=True):
            last.append(_make_row(run, position, _mode_change(path, opened[path] | 0o700, opened[path])))
        lost = set(self._find_unkept(chosen)) if allows_loss else set()
        for each in chosen:
            row = self._stage_unit(staging, each, run, position, lost)
            if each.unit.path in opened and each.unit.change.kind is ChangeKind.MODE:
                row = row.with_before(replace(row.change.before, mode=opened[each.unit.path] | 0o700))
            rows.append(row)
            wanted = each.unit.change.after.mode
            if each.unit.is_bare and not each.unit.is_helper and wanted is not None and wanted & 0o700 != 0o700:
                last.insert(0, _make_row(run, position, _mode_change(each.unit.path, wanted | 0o700, wanted & 0o3777)))
        return rows + last

    def _stage_unit(
        self, staging: StagedEntries, each: ComparedUnit, run: str, position: int, lost: Collection[str]
    ) -> LoggedChange:
        change, before, token = each.unit.change, each.before, make_token()
        if change.kind in (ChangeKind.CREATED, ChangeKind.CHANGED):
            staged, after, tree = staging.stage(each.unit)
            if change.kind is ChangeKind.CHANGED:
                tree = tree if tree is not None else each.tree
                before = before if each.unit.path in lost else before.with_stored(token)
            return LoggedChange(
                run,
                position,
                Change(change.path, change.kind, before, after),
                token,
                staged,
                tree=tree,
                displaced=each.tree,
            )
        if change.kind is ChangeKind.DELETED:
            before = before if each.unit.path in lost else before.with_stored(token)
            return LoggedChange(run, position, Change(change.path, change.kind, before), token, tree=each.tree)
        if change.kind is ChangeKind.MOVED:
            return LoggedChange(run, position, Change(change.path, change.kind, ABSENT, before, change.source), token)
        unearned = stat.S_ISUID if before.kind == "folder" else stat.S_ISUID | stat.S_ISGID
        after = replace(before, mode=(change.after.mode or 0) & ~unearned)
        if change.kind is ChangeKind.TOUCHED and before.stamp is not None and change.after.stamp is not None:
            identity, _, _ = before.stamp.rpartition(":")
            after = replace(before, stamp=f"{identity}:{change.after.stamp.rpartition(':')[2]}")
        return LoggedChange(run, position, Change(change.path, change.kind, before, after), token)

    def _open_parents(self, chosen: Sequence[ComparedUnit], folders: FolderCache) -> dict[str, int]:
        """Return the modes of folders that are closed to their owner and in which something has to be changed."""
        found: dict[str, int] = {}
        if os.geteuid() == 0:
            return found
        seen: set[str] = set()
        for each in chosen:
            if each.unit.change.kind not in (*_DISPLACING, ChangeKind.CREATED, ChangeKind.MOVED):
                continue
            for path in (each.unit.path, each.unit.change.source):
                parent = (path or "").rpartition("/")[0]
                if not parent or parent in seen or is_temporary_path(parent):
                    continue
                seen.add(parent)
                try:
                    location = folders.locate(parent)
                    image = take_image(location.fd, location.name)
                except OSError:
                    continue
                if image.kind == "folder" and image.mode is not None and image.mode & 0o300 != 0o300:
                    found[parent] = image.mode
        return dict(sorted(found.items()))


_DISPLACING = (ChangeKind.CHANGED, ChangeKind.DELETED)


def _list_sizes(each: ComparedUnit) -> dict[str, int]:
    """Return the sizes of the files that a unit displaces, by their paths."""
    if each.tree is None:
        return {each.unit.path: each.before.size or 0} if each.before.kind == "file" else {}
    images = each.tree.images.items()
    return {f"{each.unit.path}/{below}": image.size or 0 for below, image in images if image.kind == "file"}


def _make_row(run: str, position: int, change: Change) -> LoggedChange:
    return LoggedChange(run, position, change, make_token())


def _mode_change(path: str, before: int, after: int) -> Change:
    return Change(path, ChangeKind.MODE, FileImage("folder", before), FileImage("folder", after))


def _leave_conflicts(compared: Sequence[ComparedUnit], left: Collection[str]) -> list[ComparedUnit]:
    """Return the units to apply: without conflicts, and without repositories that have one."""
    failed = {
        each.unit.group
        for each in compared
        if each.unit.group is not None and (each.conflicts or each.unit.path in left)
    }
    moves_failed = any(each.conflicts for each in compared if each.unit.change.kind is ChangeKind.MOVED)
    return [
        each
        for each in compared
        if not each.conflicts
        and not each.is_needless
        and each.unit.path not in left
        and (each.unit.group is None or each.unit.group not in failed)
        and not (moves_failed and (each.unit.change.kind is ChangeKind.MOVED or each.unit.is_helper))
    ]
