"""Selection: which files a search is about. Made from the start paths, the exclusions and the guard."""

from __future__ import annotations

from collections.abc import Generator

from wap_kernel.errors import InvalidArgument, PermissionDenied, from_os_error
from wap_kernel.files.atomic import is_temporary
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.globs import Exclusions, chosen
from wap_kernel.files.primitives import Access, Files, Guard, Kind, Stat
from wap_kernel.files.trees import open_real, regular_files
from wap_kernel.operations import SearchFiles

MAX_PATHS = 100

MAX_FILE_SIZE = 256 * 1024 * 1024
"""Bigger files are not searched."""


class Selection:
    """Files that are named, and files below folders that are named unless they are excluded or hidden."""

    def __init__(self, files: Files, guard: Guard, operation: SearchFiles) -> None:
        if not 0 < len(operation.paths) <= MAX_PATHS:
            raise InvalidArgument(
                f"A search needs between 1 and {MAX_PATHS} paths, not {len(operation.paths)}.",
                hint='Use "." for the whole workspace.',
            )
        self.recursive = operation.recursive
        self.named: set[str] = set()
        """Real paths of files, as far as they are searched at all; exclusions do not apply to them."""
        self.folders: dict[str, Exclusions] = {}
        """Real paths of folders, and what is excluded below each."""
        self._files = files
        self._guard = guard
        patterns = chosen(operation.exclude, recursive=operation.recursive)
        starts = {_start(files, path) for path in operation.paths}
        # rg would ignore its own limit for a file that is named.
        self.named.update(found.path for found in starts if found.kind is Kind.FILE and found.size <= MAX_FILE_SIZE)
        for path in sorted({found.path for found in starts if found.kind is Kind.FOLDER}):
            # A folder below another one that is searched anyway is left out; an excluded one is a start of its own.
            if not (self.recursive and any(not known.covers_folder(path) for known in self._above(path))):
                self.folders[path] = Exclusions(patterns, path)
        self.pruned = frozenset().union(*(exclusions.folder_names for exclusions in self.folders.values()))
        """Names of folders that are excluded everywhere."""
        self._owners: dict[str, list[Exclusions]] = {}
        self._verdicts: dict[str, bool | None] = {}
        """Whether all (True) or none (False) of the files in a folder are selected; None if each must be asked."""

    def __contains__(self, path: str) -> bool:
        """Whether the file `path`, as rg found it, is asked for and may be read."""
        if path in self.named:
            return self._is_readable(path)
        folder = path.rpartition("/")[0] or "."
        if folder not in self._verdicts:
            self._verdicts[folder] = self._verdict(folder)
        verdict = self._verdicts[folder]
        if verdict is False or is_temporary(path.rpartition("/")[2]):
            return False
        if verdict is not None:
            return True
        return self._is_readable(path) and any(not owner.excludes(path, False) for owner in self._owners[folder])

    def walk(self, deadline: Deadline) -> Generator[tuple[str, str], None, None]:
        """Folder and name of each of the files, by real paths, in no order; one may come twice."""
        for path in self.named:
            folder, _, name = path.rpartition("/")
            yield folder or ".", name
        for path, exclusions in self.folders.items():
            start = open_real(self._files, path)
            if start is not None:
                yield from regular_files(self._files, start, exclusions, deadline, recursive=self.recursive)

    def _verdict(self, folder: str) -> bool | None:
        """Finds the starts that bring the search into `folder`."""
        owners = [self.folders[folder]] if folder in self.folders else []
        if self.recursive:
            owners += [owner for owner in self._above(folder) if not owner.covers_folder(folder)]
        if not owners or not self._is_readable(folder):
            return False
        self._owners[folder] = owners
        return True if owners[0].only_names and not self._guard.hidden_names(folder) else None

    def _above(self, folder: str) -> list[Exclusions]:
        """The starts that lie above `folder`."""
        above = []
        while folder != ".":
            folder = folder.rpartition("/")[0] or "."
            if folder in self.folders:
                above.append(self.folders[folder])
        return above

    def _is_readable(self, path: str) -> bool:
        try:
            self._guard.check(path, Access.READ)
        except PermissionDenied:
            return False
        return True


def _start(files: Files, path: str) -> Stat:
    try:
        found = files.stat(path)
    except OSError as error:
        raise from_os_error(error, path) from error
    if found.kind not in (Kind.FILE, Kind.FOLDER):
        raise InvalidArgument(
            f"Not a file or folder: {path}", hint="Pipes, devices and sockets are never opened.", path=path
        )
    return found
