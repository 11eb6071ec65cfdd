"""Find the paths that a command line may name, however they are spelled. Pure.

Every word at any depth (also in `sh -c '...'`, a heredoc, a redirection) is a path that may exist. The result has too
many paths rather than too few: most of them do not exist, and the others are what the line is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from posixpath import normpath
from urllib.parse import unquote

from wap_kernel.model.paths import relative_to
from wap_kernel.policy.commands.computed_names import find_program, may_compute_names
from wap_kernel.policy.commands.manifests import list_manifests
from wap_kernel.policy.shell.expansion import Variables, expand_word, find_assignments
from wap_kernel.policy.shell.loose_lexer import LooseCommand, LooseWord, restore_quoted, split_loosely

MAX_PATHS = 2000
"""Paths that are searched for. A line with more is taken for one that names everything."""
MAX_FOLDERS = 16
"""Folders that a line changes to."""
MAX_NESTING = 5
MAX_NAME = 4096
_PARTS = re.compile(r"[=:,@]")
_SEQUENCE = re.compile(r"(?:&&|[;\n])*")
_BEFORE_CD = frozenset("command builtin time".split())
_WORKING_DIRECTORY = re.compile(r"\$\(\s*pwd(?:\s+-[LP])?\s*\)|`\s*pwd(?:\s+-[LP])?\s*`")
_SHELL_TEXT = re.compile(r"[\s;|&()<>`'\"$]")
_GLOB = re.compile(r"[*?\[]")
_PROCESS_FOLDER = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(cwd|root)(?=/|$)")
_FILE_URL = re.compile(r"(?:.*@\s*)?(?:\w+\+)?file:(?://(?:localhost)?(?=/))?([^#?@]*).*", re.DOTALL)
_MODULE_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)", re.DOTALL)
_MODULE = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*")
_MODULE_ATTRIBUTE = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*:[\w.]+(?:\(\))?")
_CHANGES_FOLDER = re.compile(r"-C.*|--(?:chdir|directory|prefix|cwd|dir|project)(?:=.*)?|-execdir", re.DOTALL)


@dataclass(frozen=True)
class Surroundings:
    """The workspace and the machine of a command line."""

    root: str
    """The absolute path of the workspace."""
    other_names: tuple[str, ...] = ()
    """Other absolute paths of the workspace: `/workspace`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables that every command inherits."""


@dataclass(frozen=True)
class NamedPaths:
    """The paths that a line may name, absolute, with `..` where the line has it."""

    paths: tuple[str, ...]
    patterns: tuple[str, ...]
    """Paths with `*`, `?` or `[`."""
    folders: tuple[str, ...]
    """Folders that the line changes to; it need not use anything else in them."""
    words: frozenset[str]
    """The words themselves, and their last parts."""
    is_open: bool
    """True if the line may also run files that it does not name."""


def find_named_paths(
    line: str, cwd: str, surroundings: Surroundings, environment: Mapping[str, str] | None = None
) -> NamedPaths:
    """Return the paths that `line` may name.

    The line starts in `cwd`, a path relative to the workspace; `environment` has the variables of its own.
    """
    text = _WORKING_DIRECTORY.sub("${PWD}", line)
    variables = {**surroundings.variables, **(environment or {})}
    search = _Search(surroundings, _join(surroundings.root, cwd), {name: (value,) for name, value in variables.items()})
    start = search.get_variables()
    for value in (environment or {}).values():
        search.add_live(value, 0)
    search.add_text(text, 0)
    return NamedPaths(
        paths=tuple(search.paths),
        patterns=tuple(search.patterns),
        folders=tuple(search.folders),
        words=frozenset(search.words),
        is_open=search.is_open or may_compute_names(text, start),
    )


class _Search:
    """The paths that have been found so far, and the folders in which the next command may start."""

    def __init__(self, surroundings: Surroundings, cwd: str, variables: Variables) -> None:
        self._surroundings = surroundings
        self._bases = [cwd]
        self._variables = variables
        self.paths: dict[str, None] = {}
        self.patterns: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self.words: set[str] = set()
        self._added: set[tuple[str, tuple[str, ...]]] = set()
        self.is_open = False

    def get_variables(self) -> Variables:
        """Return the variables; the working directory may be any of the folders that the line may be in."""
        assigned = self._variables.get("PWD", ())
        folders = None if assigned is None else tuple(dict.fromkeys((*self._bases, *assigned)))
        return {**self._variables, "PWD": folders, "OLDPWD": folders}

    def add_text(self, text: str, depth: int) -> None:
        commands = split_loosely(text)
        self._variables = find_assignments(commands, self.get_variables())
        is_sequence = all(_is_sequential(command) for command in commands)
        if not is_sequence:  # a subshell, a loop or a function: any command may start in any of the folders
            for command in commands:
                self._change_folder(command, stays=True)
        for at, command in enumerate(commands):
            self._add_command(command, depth)
            if is_sequence:
                is_certain = all("&&" in each.before for each in commands[at + 1 :])
                self._change_folder(command, stays=not is_certain)

    def _change_folder(self, command: LooseCommand, *, stays: bool) -> None:
        """Follow `cd`; with `stays`, later commands may also run if it fails."""
        words = _find_change(command)
        if not words:
            return
        targets = [word.live for word in words[1:] if not word.text.startswith("-")] or ["~"]
        found = [
            path
            for target in expand_word(targets[0], self.get_variables()).texts
            if target
            for base in self._bases
            for path in self._locate(restore_quoted(target), base)
        ]
        if words[0].text == "popd" or any(word.text == "-" for word in words):
            found += [*self.folders]
            stays = True
        self.folders.update(dict.fromkeys(found))
        self._bases = list(dict.fromkeys((*(self._bases if stays else ()), *found)))
        if len(self._bases) > MAX_FOLDERS or "CDPATH" in self._variables:
            self.is_open = True
            del self._bases[MAX_FOLDERS:]

    def _add_command(self, command: LooseCommand, depth: int) -> None:
        variables = self.get_variables()
        skipped = _find_change(command) or [word for word in find_program(command)[:1] if word.text == "."]
        texts = [expand_word(word.live, variables).texts for word in command.words if word not in skipped]
        for each in (live for lives in texts for live in lives):
            self.add_live(each, depth)
        words = [restore_quoted(lives[0]) for lives in texts if lives]
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            if option := _MODULE_OPTION.fullmatch(word):
                self._add_module(_MODULE.fullmatch(option[1] or following))
            self._add_module(_MODULE_ATTRIBUTE.fullmatch(word))
            for manifest in list_manifests(word.rpartition("/")[2]):
                self._add_path(manifest)
            if word and "/" not in word:
                for folder in self._list_search_path():
                    self._add_path(f"{folder}/{word}")
        if any(".." in word for word in words) and any(map(_CHANGES_FOLDER.fullmatch, words)):
            self.is_open = True

    def add_live(self, live: str, depth: int) -> None:
        """Add the paths that a word may name, by itself, by its parts and as a text of its own."""
        key = (live, tuple(self._bases))
        if key in self._added:
            return
        self._added.add(key)
        text = restore_quoted(live)
        self.words.update((text, text.rpartition("/")[2]))
        for variant in (each for part in dict.fromkeys((live, *live.split())) for each in _list_variants(part)):
            self._add_path(restore_quoted(variant), is_pattern=bool(_GLOB.search(variant)))
        if depth < MAX_NESTING and not self.is_open and _SHELL_TEXT.search(text):
            self.add_text(text, depth + 1)

    def _add_module(self, found: re.Match[str] | None) -> None:
        for name in (found[1], f"{found[1]}.py") if found else ():
            self._add_path(name)

    def _list_search_path(self) -> Iterator[str]:
        """Yield the folders of PATH in the workspace."""
        for value in self._variables.get("PATH") or ():
            for folder in value.split(":"):
                if folder and (folder[0] != "/" or self._is_inside(folder)):
                    yield folder

    def _is_inside(self, path: str) -> bool:
        names = (self._surroundings.root, *self._surroundings.other_names)
        return any(relative_to(path, name) is not None for name in names)

    def _add_path(self, text: str, *, is_pattern: bool = False) -> None:
        if not text or len(text) > MAX_NAME or "\0" in text:
            return
        for base in self._bases:
            for path in self._locate(text, base):
                self.paths[path] = None
                if is_pattern:
                    self.patterns[path] = None
        if len(self.paths) > MAX_PATHS:
            self.is_open = True

    def _locate(self, text: str, base: str) -> Iterator[str]:
        """Yield the absolute paths that `text` may mean in the folder `base`."""
        if found := _PROCESS_FOLDER.match(text):
            text = (base if found[1] == "cwd" else "") + (text[found.end() :] or "/")
        path = _join(base, text)
        for spelling in dict.fromkeys((path, normpath(path)) if ".." in path else (path,)):
            names = (relative_to(spelling, name) for name in self._surroundings.other_names)
            below = next((each for each in names if each is not None), None)
            yield spelling if below is None else _join(self._surroundings.root, below)


def _is_sequential(command: LooseCommand) -> bool:
    """Return whether the command comes after the one before it, without grammar of its own."""
    return bool(_SEQUENCE.fullmatch(command.before)) and find_program(command)[:1] == list(command.words[:1])


def _find_change(command: LooseCommand) -> list[LooseWord]:
    """Return `cd` and its arguments, or an empty list for another command."""
    words = find_program(command)
    while words and words[0].text in _BEFORE_CD:
        del words[0]
    return words if words and words[0].text in ("cd", "pushd", "popd") else []


def _join(folder: str, text: str) -> str:
    if text.startswith("/"):
        return text
    text = text.removeprefix("./")
    return folder if text in ("", ".") else f"{folder}/{text}"


def _list_variants(live: str) -> Iterator[str]:
    """Yield the word, and its parts that may be paths: `--file=x`, `-rx`, `a:b`, `./pkg[extra]`, `file:x`."""
    yield live
    parts = _PARTS.split(live)
    if len(parts) > 1:
        yield from parts
        yield live.partition("=")[2]
    if live.startswith("-") and not live.startswith("--"):
        yield live[2:]
    if live.endswith("]"):
        yield live.rpartition("[")[0]
    if found := _FILE_URL.fullmatch(live):
        yield from (found[1], unquote(found[1]))
