"""Clean the repositories of git that a command makes while it shares the workspace.

A person's `git status` in an outer repository runs what the `config` of a nested one names. On a Layer the changes in a
new repository are judged before they are applied. A command that shares the workspace makes it directly, so it is
searched for from time to time and when the command has ended, and judged by the same rules: what would make git run
something is moved away, and the configuration is written anew without such keys.
"""

from __future__ import annotations

import os
import posixpath
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex

from wap_kernel.engine.watch.protected_watch import MAX_NAMED, Moved
from wap_kernel.files.contained.root import Root
from wap_kernel.files.interface import FileKind, NullGuard
from wap_kernel.files.read import read_up_to
from wap_kernel.files.tree_walk import open_real_folder, walk_tree
from wap_kernel.model.changes import Change, ChangeKind, ChangeSet, FileImage, ImageKind
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.paths import join_path
from wap_kernel.policy.effects.judgement import EffectFacts
from wap_kernel.policy.effects.repositories import Repositories
from wap_kernel.policy.effects.repository_rules import RepositoryJudgement, judge_repositories
from wap_kernel.policy.paths.protected import ProtectedPaths
from wap_kernel.policy.paths.quarantine import move_away, open_parent, quarantine_files, retry_opened

PERIOD_SECONDS = 2.0
SEARCH_PART = 0.05
"""The part of the time that the searches during one command may take."""
SEARCH_SECONDS = 300.0
"""Seconds that the search after a command may take; more than the search for masks before the next one."""
MAX_ENTRIES = 20_000
"""Entries of one new repository, objects left out; a larger one is moved away."""
MAX_JUDGED_BYTES = 1024 * 1024
_KINDS: Mapping[FileKind, ImageKind] = {
    FileKind.FILE: "file",
    FileKind.FOLDER: "folder",
    FileKind.LINK: "link",
}
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

FindRepositories = Callable[[Deadline], frozenset[str]]


@dataclass
class RepositoryFindings:
    """The files that were moved away during one command, and why the search after it failed, if it did."""

    moved: Moved = field(default_factory=list)
    problem: str | None = None


class RepositoryWatch:
    """The watch over the repositories of one workspace."""

    def __init__(self, files: Root, report: Callable[[str, str | None], None] = lambda *_: None) -> None:
        self._files = files.guarded_by(NullGuard())
        self._report = report

    @contextmanager
    def watching(self, before: frozenset[str], find: FindRepositories) -> Iterator[RepositoryFindings]:
        """Clean the repositories that `find` finds and that are not among `before`, until the block ends."""
        findings, ended = RepositoryFindings(), threading.Event()
        thread = threading.Thread(
            target=self._run, args=(before, find, findings, ended), name="wap-repositories", daemon=True
        )
        thread.start()
        try:
            yield findings
        finally:
            ended.set()
            thread.join()
            try:
                self._clean(find(Deadline(SEARCH_SECONDS)) - before, findings, is_last=True)
            except WapError as error:
                findings.problem = error.text

    def _run(
        self, before: frozenset[str], find: FindRepositories, findings: RepositoryFindings, ended: threading.Event
    ) -> None:
        pause = PERIOD_SECONDS
        while not ended.wait(pause):
            began = time.monotonic()
            with suppress(WapError, OSError):  # the next round tries again, and the last one tells
                self._clean(find(Deadline(SEARCH_SECONDS, ended.is_set)) - before, findings, is_last=False)
            pause = max(PERIOD_SECONDS, (time.monotonic() - began) / SEARCH_PART)

    def _clean(self, new: Collection[str], findings: RepositoryFindings, *, is_last: bool) -> None:
        if not new:
            return
        changes = ChangeSet(tuple(self._list_changes(sorted(new), findings)))
        created = {change.path for change in changes}
        facts = EffectFacts(
            protected=ProtectedPaths(frozenset(), frozenset()),
            read=self._read,
            existed=lambda path: path not in created and self._lstat(path) is not None,
            root=self._files.path,
        )
        judgement = judge_repositories(changes, Repositories(changes, facts), facts)
        self._add(quarantine_files(self._files.fd, _select_topmost(judgement)), findings)
        omitted = {each.path for each in judgement.omitted}
        for path, content in judgement.rewritten.items():
            # Git itself may be at work: before the end a configuration is touched only where it names a program.
            if is_last or path in omitted:
                self._rewrite(path, content, path in omitted, findings)

    def _list_changes(self, new: list[str], findings: RepositoryFindings) -> Iterator[Change]:
        """Yield what is in the new repositories as created, folders before what lies below."""
        seen: set[str] = set()
        for path in new:
            if path in seen:  # the repository of a submodule, which its outer one has listed
                continue
            listed = list(self._list_repository(path))
            if len(listed) > MAX_ENTRIES:
                self._add(quarantine_files(self._files.fd, [path]), findings)
                continue
            seen.update(change.path for change in listed)
            yield from listed

    def _list_repository(self, path: str) -> Iterator[Change]:
        found = self._lstat(path)
        if found is None:
            return
        yield _make_created(path, found)
        folder = open_real_folder(self._files, path) if found is FileKind.FOLDER else None
        if folder is None:
            return
        count = 0
        for level in walk_tree(self._files, folder):
            here = level.folder.path
            is_objects = posixpath.basename(here) == "objects"
            for batch in level.folder.batches():
                for entry in batch:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if entry.name.endswith(".lock") or (is_objects and entry.name != "info"):
                        continue
                    kind = FileKind.FOLDER if is_folder else _find_kind(entry.is_symlink(), entry.is_file())
                    yield _make_created(join_path(here, entry.name), kind)
                    count += 1
                    if count > MAX_ENTRIES:
                        return
                    if is_folder:
                        level.pending.append(entry.name)

    def _rewrite(self, path: str, content: bytes, stores_old: bool, findings: RepositoryFindings) -> None:
        """Replace a file; with `stores_old` the old one is moved away."""
        with ExitStack() as opened, suppress(OSError):
            folder = open_parent(opened, self._files.fd, path)
            if folder is None:
                return
            parent, name = posixpath.split(path)
            temporary = f"{name}.{token_hex(8)}"
            descriptor = retry_opened(opened, folder, partial(os.open, temporary, _NEW, 0o644, dir_fd=folder))
            with open(descriptor, "wb") as file:
                file.write(content)
            if stores_old and (new := move_away(opened, folder, name)) is not None:
                self._add([(path, join_path(parent, new))], findings)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _add(self, moved: Collection[tuple[str, str]], findings: RepositoryFindings) -> None:
        for old, new in moved:
            self._report(old, new)
            if len(findings.moved) < MAX_NAMED:
                findings.moved.append((old, new))

    def _lstat(self, path: str) -> FileKind | None:
        try:
            found = self._files.lstat(path)
        except (OSError, WapError):
            return None
        return None if found is None else found.kind

    def _read(self, path: str) -> bytes | None:
        if self._lstat(path) is not FileKind.FILE:
            return None
        try:
            with self._files.open(path) as file:
                content = read_up_to(file, MAX_JUDGED_BYTES)
        except (OSError, WapError):
            return None
        return content if len(content) <= MAX_JUDGED_BYTES else None


def _select_topmost(judgement: RepositoryJudgement) -> list[str]:
    return [path for path in judgement.refused if posixpath.dirname(path) not in judgement.refused]


def _find_kind(is_link: bool, is_file: bool) -> FileKind:
    return FileKind.LINK if is_link else FileKind.FILE if is_file else FileKind.SPECIAL


def _make_created(path: str, kind: FileKind) -> Change:
    return Change(path, ChangeKind.CREATED, after=FileImage(_KINDS.get(kind, "special")))
