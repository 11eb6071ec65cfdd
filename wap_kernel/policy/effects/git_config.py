"""Clean the `config` of a repository that a command made: keep the keys that make git run nothing. Pure.

The kept keys are written anew, so that what git reads is what was checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wap_kernel.model.paths import split_path

_FLAGS: Mapping[str, frozenset[str]] = {
    "core": frozenset(
        """
        repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol
        sparsecheckout sparsecheckoutcone quotepath
        """.split()
    ),
    "extensions": frozenset({"objectformat", "refstorage", "relativeworktrees"}),
    "user": frozenset({"name", "email"}),
    "init": frozenset({"defaultbranch"}),
    "pull": frozenset({"rebase", "ff"}),
    "push": frozenset({"default", "autosetupremote"}),
    "submodule": frozenset({"active"}),
}
"""The keys that are kept, by section."""
_NAMED: Mapping[str, frozenset[str]] = {
    "remote": frozenset({"url", "fetch", "tagopt"}),
    "branch": frozenset({"remote", "merge", "rebase"}),
    "submodule": frozenset({"url", "active"}),
}
"""The keys that are kept, by sections that carry a name: `[remote "origin"]`."""
_ADDRESSES = frozenset({"url", "remote"})

_VALUE = r'(?:"(?:[^"\\\n]|\\.|\\\n)*"|\\\n|\\.|[^"\\\n#;])*'
_LINE = re.compile(
    rf"""
    \s*
    (?:
        \[ \s* (?P<section>[A-Za-z0-9-]+) (?: \s+ "(?P<name>(?:[^"\\\n]|\\.)*)" | \.(?P<dotted>[A-Za-z0-9.-]+) )? \s* \]
        | (?P<key>[A-Za-z][A-Za-z0-9-]*) [ \t]* (?: = [ \t]* (?P<value>{_VALUE}) )? (?: [#;][^\n]* )? (?:\n|\Z)
        | [#;][^\n]* (?:\n|\Z)
        | \Z
    )
    """,
    re.VERBOSE,
)
_PIECE = re.compile(r'"((?:[^"\\\n]|\\.|\\\n)*)"|((?:\\\n|\\.|[^"\\\n])+)')
_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPES = {"\n": "", "n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNQUOTED = re.compile(r"[^\s\"\\#;](?:[^\"\\#;]*[^\s\"\\#;])?")


@dataclass(frozen=True)
class CleanedConfig:
    """The configuration that is left, and the names of the keys that were left out."""

    content: bytes
    omitted: tuple[str, ...]


@dataclass(frozen=True)
class _Setting:
    section: str
    name: str | None
    key: str
    value: str | None
    """The value; None where the key stands alone, which means true."""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.section, self.name, self.key)))

    @property
    def header(self) -> str:
        name = "" if self.name is None else ' "' + re.sub(r'(["\\])', r"\\\1", self.name) + '"'
        return f"[{self.section}{name}]\n"

    @property
    def line(self) -> str:
        if self.value is None:
            return f"\t{self.key}\n"
        quoted = '"' + re.sub(r'(["\\])', r"\\\1", self.value) + '"'
        return f"\t{self.key} = {self.value if _UNQUOTED.fullmatch(self.value) else quoted}\n"


def clean_config(content: bytes, worktree: tuple[str, str] | None = None) -> CleanedConfig | None:
    """Return the configuration with harmless keys only; None where it cannot be parsed.

    `worktree` is given for the repository of a submodule: its own folder, and the folder that its files must stay in.
    """
    settings = _parse(content.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n"))
    if settings is None:
        return None
    omitted = tuple(dict.fromkeys(str(each) for each in settings if not _is_harmless(each, worktree)))
    text, header = "", ""
    for setting in (each for each in settings if _is_harmless(each, worktree)):
        if setting.header != header:
            header = setting.header
            text += header
        text += setting.line
    return CleanedConfig(text.encode("utf-8", "surrogateescape"), omitted)


def _is_harmless(setting: _Setting, worktree: tuple[str, str] | None) -> bool:
    section, key, value = setting.section.lower(), setting.key.lower(), setting.value or ""
    if _CONTROL.search(f"{setting.name or ''}{value}"):
        return False
    if worktree is not None and (section, setting.name, key) == ("core", None, "worktree"):
        return _stays_in(value, *worktree)
    if key not in (_FLAGS if setting.name is None else _NAMED).get(section, ()):
        return False
    # `ext::sh -c x` is a transport that runs a program, and a leading dash makes an address an option.
    return not (setting.name is not None and key in _ADDRESSES and ("::" in value or value.startswith("-")))


def _stays_in(path: str, folder: str, top: str) -> bool:
    """Return whether the relative `path`, seen from `folder`, lies below `top` and in no folder of git."""
    names = split_path(folder)
    for name in () if path.startswith("/") else split_path(path):
        if name != "..":
            names.append(name)
        elif not names:
            return False
        else:
            names.pop()
    above = split_path(top)
    return not path.startswith("/") and names[: len(above)] == above and ".git" not in map(str.casefold, names)


def _parse(text: str) -> list[_Setting] | None:
    found: list[_Setting] = []
    section: tuple[str, str | None] | None = None
    at = 0
    while at < len(text):
        line = _LINE.match(text, at)
        if line is None or line.end() == at:
            return None
        at = line.end()
        if line["section"]:
            name = line["dotted"] if line["name"] is None else re.sub(r"\\(.)", r"\1", line["name"])
            section = (line["section"], name)
        elif line["key"]:
            if section is None:
                return None
            value = None if line["value"] is None else "".join(_unquote(line["value"]))
            found.append(_Setting(*section, line["key"], value))
    return found


def _unquote(value: str) -> Iterator[str]:
    for piece in _PIECE.finditer(value.rstrip(" \t")):
        text = piece[1] if piece[1] is not None else piece[2]
        yield _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], "\0"), text)
