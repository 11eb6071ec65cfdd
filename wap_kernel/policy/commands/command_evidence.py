"""Collect the evidence of a command that is asked about before it runs: the state of every file that its line names.

A folder that the line names is evidence with everything in it. Its name ends with a slash there. So are the Python
environment of a named program, the files that package managers and `make` read by themselves, and the whole workspace
if the line computes names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from posixpath import basename, dirname

from wap_kernel.files.interface import FileKind, Files, LinkStat
from wap_kernel.files.path_state import ABSENT, TOO_LARGE, describe_real_path, describe_tree
from wap_kernel.files.tree_walk import iterate_entries, try_open
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import TimedOut, WapError
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.paths import join_path, relative_to
from wap_kernel.policy.commands.manifests import MAX_MANIFEST_BYTES, list_inner_lines
from wap_kernel.policy.commands.named_paths import Surroundings, find_named_paths

EVIDENCE_SECONDS = 5.0
MAX_MATCHED_PATHS = 1000
"""Paths that the patterns of a line may match; with more, the whole workspace is evidence."""
MAX_INNER_LINES = 200
MAX_INNER_DEPTH = 3
_WILDCARD = re.compile(r"[*?\[]")
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


def collect_command_evidence(files: Files, operation: RunCommand, surroundings: Surroundings) -> dict[str, str]:
    """Return the state of the working directory, and of each path that the command names and that exists.

    A state is a word, the real path, and the target of a link.
    """
    collection = _Collection(files, surroundings)
    collection.add_line(operation.line, operation.cwd, operation.environment)
    collection.add_folder(operation.cwd)
    return {operation.cwd: ABSENT, **collection.describe()}


def list_bound_paths(evidence: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """Return the files and folders that an approval is bound to, and the folders that are too large for that."""
    words = {path: str(state).partition(" ")[0] for path, state in sorted(evidence.items())}
    too_large = [path for path, word in words.items() if word == TOO_LARGE]
    # A folder that the command starts in, or changes to, is bound by its name only.
    return [path for path, word in words.items() if word not in (TOO_LARGE, "folder", ABSENT)], too_large


class _Collection:
    """The paths that a command names, as they are found."""

    def __init__(self, files: Files, surroundings: Surroundings) -> None:
        self._files = files
        self._surroundings = surroundings
        self._deadline = Deadline(EVIDENCE_SECONDS)
        self._seen: set[str] = set()
        self._states: dict[str, str] = {}
        self._trees: dict[str, str] = {}
        """The real path of each folder, by the path that the line names."""
        self._matches = 0
        self._inner_lines = 0

    def add_line(self, line: str, cwd: str, environment: Mapping[str, str], depth: int = 0) -> None:
        """Add the paths that `line` names, and those of the lines that it takes from package files."""
        named = find_named_paths(line, cwd, self._surroundings, environment)
        if named.is_open:
            self._trees["."] = "."
        paths = [*named.paths, *(f"{self._surroundings.root}/{each}" for each in self._match_all(named.patterns))]
        for path in paths:
            relative = self._locate(path)
            if relative is not None and relative not in self._seen:
                self._seen.add(relative)
                if self._add_path(relative) and depth < MAX_INNER_DEPTH:
                    self._add_inner_lines(relative, cwd, named.words, depth)
        for path in named.folders:
            self.add_folder(self._locate(path))

    def add_folder(self, path: str | None) -> None:
        """Add a folder of which only the name counts."""
        real = None if path is None else self._stat(path)[1]
        if path is not None and real is not None:
            self._states.setdefault(path, f"folder {real}")

    def describe(self) -> dict[str, str]:
        """Return the states, at last those of the folders."""
        for path, real in sorted(self._trees.items(), reverse=True):
            # The whole workspace may take long, and must not take the time of the folders that are named.
            deadline = Deadline(EVIDENCE_SECONDS) if real == "." else self._deadline
            self._states[f"{path}/"] = f"{describe_tree(self._files, real, deadline)} {real}"
        return self._states

    def _locate(self, path: str) -> str | None:
        """Return the path relative to the workspace, `.` for a folder around it, or None for a path elsewhere."""
        root = self._surroundings.root
        below = relative_to(path, root)
        if below is not None and ".." not in below.split("/"):
            return below or "."
        real = os.path.realpath(path)
        below = relative_to(real, root)
        if below is None:
            return None if relative_to(root, real) is None else "."
        return below or "."

    def _add_path(self, path: str) -> bool:
        """Add the state of a path, and return whether there is a file that can be read."""
        link, real = self._stat(path)
        if link is None:
            return False
        self._add_environment(path)
        target = f" -> {link.target}" if link.kind is FileKind.LINK else ""
        if real is None:  # a link that leads out of the workspace, or nowhere
            self._states[path] = f"link {os.path.realpath(self._host_path(path))}{target}"
            return False
        state = describe_real_path(self._files, real, self._deadline, shallow=True)
        if state == "folder":
            self._trees[path] = real
        if state != "folder" or target:
            self._states[path] = f"{state} {real}{target}"
        return state not in (ABSENT, "closed", "folder")

    def _stat(self, path: str) -> tuple[LinkStat | None, str | None]:
        """Return the lstat of a path, and its real path; None for each that is not known."""
        try:
            link = self._files.lstat(self._files.resolve(path, follow=False))
        except (OSError, WapError):
            return None, None
        try:
            return link, self._files.resolve(path)
        except (OSError, WapError):
            return link, None

    def _host_path(self, path: str) -> str:
        return self._surroundings.root if path == "." else f"{self._surroundings.root}/{path}"

    def _add_environment(self, path: str) -> None:
        """Add the folder of the Python environment to which a program belongs."""
        for folder in (path, dirname(path) or ".", dirname(dirname(path)) or "."):
            key = f"{folder}/"
            if key in self._seen:
                continue
            self._seen.add(key)
            if any(self._stat(join_path(folder, mark))[0] is not None for mark in _ENVIRONMENT_MARKS):
                real = self._stat(folder)[1]
                if real is not None:
                    self._trees[folder] = real

    def _add_inner_lines(self, path: str, cwd: str, words: frozenset[str], depth: int) -> None:
        try:
            with self._files.open(path) as file:
                content = file.read(MAX_MANIFEST_BYTES) if basename(path).endswith((".json", ".txt", ".in")) else b""
        except (OSError, WapError):
            return
        for line in islice(list_inner_lines(basename(path), content, words), MAX_INNER_LINES + 1):
            self._inner_lines += 1
            if self._inner_lines > MAX_INNER_LINES:
                self._trees["."] = "."
                return
            for folder in dict.fromkeys((cwd, dirname(path) or ".")):
                self.add_line(line, folder, {}, depth + 1)

    def _match_all(self, patterns: Sequence[str]) -> Iterator[str]:
        """Yield the paths that patterns match; with too many, the whole workspace counts."""
        try:
            for pattern in patterns:
                for parts in self._list_inner_patterns(pattern.split("/")):
                    for match in self._match(".", parts):
                        self._matches += 1
                        if self._matches > MAX_MATCHED_PATHS:
                            self._trees["."] = "."
                            return
                        yield match
        except TimedOut:
            self._trees["."] = "."

    def _list_inner_patterns(self, parts: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield the parts of an absolute pattern below the workspace, for each name of it that the pattern matches."""
        for name in (self._surroundings.root, *self._surroundings.other_names):
            root = name.split("/")
            if len(parts) >= len(root) and all(map(_matches, root, parts)):
                yield [part for part in parts[len(root) :] if part not in ("", ".")]

    def _match(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        if not parts:
            yield folder
        elif not _WILDCARD.search(parts[0]):
            yield from self._match(join_path(folder, parts[0]), parts[1:])
        else:
            opened = try_open(self._files.open_folder, folder)
            if opened is not None:
                with opened:
                    names = [e.name for e in iterate_entries(opened, self._deadline) if _matches(e.name, parts[0])]
                for name in sorted(names):
                    yield from self._match(join_path(folder, name), parts[1:])


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name may match a part of a pattern; a class of characters such as `[:alpha:]` matches all."""
    return name == pattern or "[:" in pattern or fnmatchcase(name, pattern.replace("[^", "[!"))
