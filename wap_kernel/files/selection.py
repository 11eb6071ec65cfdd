"""Selection: which files a search is about. Made from the start paths, the exclusions and the guard."""

from __future__ import annotations

from collections.abc import Generator

from wap_kernel.errors import InvalidArgument, PermissionDenied, from_os_error
from wap_kernel.files.globs import DEFAULT_EXCLUSIONS, Exclusions
from wap_kernel.files.primitives import Access, Files, Guard, Kind
from wap_kernel.files.trees import GONE, is_gone, regular_files
from wap_kernel.operations import SearchFiles

MAX_PATHS = 1000


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
        """Real paths of files; exclusions do not apply to them."""
        self.folders: dict[str, Exclusions] = {}
        """Real paths of folders, and what is excluded below each."""
        self._files = files
        self._guard = guard
        patterns = operation.exclude
        if patterns is None:
            patterns = DEFAULT_EXCLUSIONS if operation.recursive else ()
        starts = {_start(files, path) for path in operation.paths}
        self.named.update(path for path, kind in starts if kind is Kind.FILE)
        for path in sorted(path for path, kind in starts if kind is Kind.FOLDER):
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
        if verdict is not None:
            return verdict
        return self._is_readable(path) and any(not owner.excludes(path, False) for owner in self._owners[folder])

    def walk(self) -> Generator[str, None, None]:
        """The real paths of all the files, in no order; one may come twice."""
        yield from self.named
        for path, exclusions in self.folders.items():
            try:
                folder = self._files.open_folder(path)
            except GONE:
                continue
            except OSError as error:
                if is_gone(error):
                    continue
                raise
            if folder.path != path:  # a link has taken its place since it was resolved
                folder.close()
                continue
            yield from regular_files(self._files, folder, exclusions, recursive=self.recursive)

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


def _start(files: Files, path: str) -> tuple[str, Kind]:
    try:
        found = files.stat(path)
    except OSError as error:
        raise from_os_error(error, path) from error
    if found.kind not in (Kind.FILE, Kind.FOLDER):
        raise InvalidArgument(
            f"Not a file or folder: {path}", hint="Pipes, devices and sockets are never opened.", path=path
        )
    return found.path, found.kind
