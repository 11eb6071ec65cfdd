"""Select the files of a search by the start paths, the exclusions and the guard."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from wap_kernel.files.contained.atomic_write import is_temporary
from wap_kernel.files.globs.sets import ExcludeSet, build_include_set, choose_excludes
from wap_kernel.files.interface import FileKind, Files, Guard, Stat
from wap_kernel.files.tree_walk import iterate_files, open_real_folder
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument, PermissionDenied, translate_os_error
from wap_kernel.model.limits import MAX_SEARCH_PATHS, MAX_SEARCHED_FILE_BYTES
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.paths import Access, join_path, split_path

FILES_PER_DEADLINE_CHECK = 100
"""Files between two checks of the deadline."""


class Selection:
    """The files that a search names, and those below the folders that it names unless they are excluded or hidden.

    Of all these, the operation's `include` selects.
    """

    def __init__(
        self, files: Files, guard: Guard, operation: SearchFiles, max_file_size: int = MAX_SEARCHED_FILE_BYTES
    ) -> None:
        if not 0 < len(operation.paths) <= MAX_SEARCH_PATHS:
            raise InvalidArgument(
                f"A search needs between 1 and {MAX_SEARCH_PATHS} paths, not {len(operation.paths)}.",
                hint='Use "." for the whole workspace.',
            )
        self.recursive = operation.recursive
        self.max_file_size = max_file_size
        self.named: set[str] = set()
        """Real paths of the files to search that the operation names; exclusions do not apply to them."""
        self.folders: dict[str, ExcludeSet] = {}
        """Real paths of the folders that the operation names, with the exclusions below each."""
        self._files = files
        self._guard = guard
        patterns = choose_excludes(operation.exclude, recursive=operation.recursive)
        include = build_include_set(operation.include)
        starts = {_stat_start(files, path) for path in operation.paths}
        # rg ignores its own limit for a file that is named.
        named = (found.path for found in starts if found.kind is FileKind.FILE and found.size <= max_file_size)
        self.named.update(path for path in named if include is None or include.matches(path.rpartition("/")[2]))
        for path in sorted({found.path for found in starts if found.kind is FileKind.FOLDER}):
            # A folder below another start that is searched anyway is left out; an excluded one is a start of its own,
            # and so is every one that globs are relative to.
            if include is not None:
                if include.leads_on("."):
                    self.folders[path] = ExcludeSet(patterns, path, include)
            elif not (self.recursive and any(not known.covers_folder(path) for known in self._above(path))):
                self.folders[path] = ExcludeSet(patterns, path)
        self.pruned = frozenset().union(*(exclusions.folder_names for exclusions in self.folders.values()))
        """Names of the folders that are excluded everywhere."""
        self.rows: list[tuple[str, ...]] | None = None
        """Selected paths below the folders, as rows of names from the root; None if every path is selected."""
        if include is not None and not include.everything:
            self.rows = [(*split_path(path), *row) for path in self.folders for row in include.rows]

    def filter_paths(self, paths: Iterable[str], deadline: Deadline) -> Iterator[str]:
        """Yield those of `paths`, files that rg found, that are selected and may be read."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            if path in self.named:
                if self._is_readable(path):
                    yield path
            else:
                folder, _, name = path.rpartition("/")
                folders.setdefault(folder or ".", []).append(name)
        for folder, names in folders.items():
            owners = self._starts_for(folder)
            if not owners:
                continue
            hidden = self._guard.hidden_among(folder, names)
            everything = any(owner.only_names for owner in owners)
            for index, name in enumerate(names):
                if not index % FILES_PER_DEADLINE_CHECK:
                    deadline.check()
                path = join_path(folder, name)
                if (
                    name not in hidden
                    and not is_temporary(name)
                    and (everything or any(not owner.excludes(path, False) for owner in owners))
                ):
                    yield path

    def walk(self, deadline: Deadline) -> Generator[tuple[str, str], None, None]:
        """Yield folder and name of each selected file, by real paths, in no order; one may come twice."""
        for path in self.named:
            folder, _, name = path.rpartition("/")
            yield folder or ".", name
        for path, exclusions in self.folders.items():
            start = open_real_folder(self._files, path)
            if start is not None:
                yield from iterate_files(self._files, start, exclusions, deadline, recursive=self.recursive)

    def _starts_for(self, folder: str) -> list[ExcludeSet]:
        """Return the exclusions of the starts that bring the search into `folder`."""
        owners = [self.folders[folder]] if folder in self.folders else []
        if self.recursive:
            owners += [owner for owner in self._above(folder) if not owner.covers_folder(folder)]
        return owners if owners and self._is_readable(folder, folder=True) else []

    def _above(self, folder: str) -> list[ExcludeSet]:
        """Return the exclusions of the starts that lie above `folder`."""
        above = []
        while folder != ".":
            folder = folder.rpartition("/")[0] or "."
            if folder in self.folders:
                above.append(self.folders[folder])
        return above

    def _is_readable(self, path: str, *, folder: bool = False) -> bool:
        try:
            self._guard.check(path, Access.READ, folder=folder)
        except PermissionDenied:
            return False
        return True


def _stat_start(files: Files, path: str) -> Stat:
    try:
        found = files.stat(path)
    except OSError as error:
        raise translate_os_error(error, path) from error
    if found.kind not in (FileKind.FILE, FileKind.FOLDER):
        raise InvalidArgument(
            f"Not a file or folder: {path}", hint="Pipes, devices and sockets are never opened.", path=path
        )
    return found
