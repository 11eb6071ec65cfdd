"""Write git attributes that keep git in a sandbox from printing closed files: it says that they differ, not how.

A mask hides a file and not what was committed of it: with an empty `.env` in its place `git diff` would print the whole
of it as removed. The objects of a repository cannot be hidden one by one, but git looks up in its attributes whether it
may print a path. So every command gets a file of attributes that forbids it for closed paths. That stops programs that
mean no harm; one that asks for a blob by its id, or reads the objects itself, gets it (see `docs/security.md`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from wap_kernel.files.globs.path_glob import PathGlob, compile_name
from wap_kernel.model.errors import translate_os_error
from wap_kernel.model.paths import split_path
from wap_kernel.policy.effective import CompiledLayer
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.providers.process.environment import GIT_CLOSED

CLOSED = f"-diff export-ignore filter={GIT_CLOSED}"
OPEN = "!diff !export-ignore !filter"
MAX_LINE = 2000
"""Bytes of a line; git ignores one that is a little longer."""

Names = tuple[str, ...]
"""A path from the top of a repository, as patterns for one name each."""

_LETTER = re.compile(r"\\.|\[[!^]?\]?[^\]]*\]|[A-Za-z]", re.DOTALL)
_WILD = re.compile(r"([\\*?\[])")
_QUOTED = re.compile(rb'[\\"\x00-\x1f\x7f]')


def render_attributes(guard: PolicyGuard, tops: Collection[str]) -> bytes:
    """Return the attributes for the repositories whose folders are `tops`; empty if nothing is closed.

    One file serves all of them, so what is closed in one is closed in all: too much rather than too little.
    """
    lines = [*_allowed_lines(guard.effective.compiled, tops), *_denied_lines(guard.effective.compiled, tops)]
    for names in _protected_names(guard.protected.hidden, tops):
        lines += [_line(names, CLOSED, caseless=True), _line((*names, "**"), CLOSED, caseless=True)]
    return b"".join(dict.fromkeys(lines))


class AttributeFiles:
    """The files of attributes, in a folder that no command sees, for sandboxes to mount."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "git-attributes")
        self._last: tuple[tuple[object, object], tuple[str, ...], bytes] = ((None, None), (), b"")
        """The last arguments and their result; with many repositories the computation takes a while."""

    def file_for(self, guard: PolicyGuard, tops: Collection[str]) -> str | None:
        """Return the path of the file, or None where nothing is closed."""
        guard = guard.snapshot()
        (protected, effective), cached_tops, content = self._last
        if protected is not guard.protected or effective is not guard.effective or cached_tops != tuple(tops):
            content = render_attributes(guard, tops) if tops else b""
            self._last = ((guard.protected, guard.effective), tuple(tops), content)
        if not content:
            return None
        path = os.path.join(self._folder, hashlib.sha256(content).hexdigest()[:32])
        if not os.path.exists(path):
            self._write(path, content)
        return path

    def _write(self, path: str, content: bytes) -> None:
        new = f"{path}.{os.getpid()}-{id(content)}"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(new, "xb") as file:
                file.write(content)
            os.rename(new, path)
        except OSError as error:
            raise translate_os_error(error, "the attributes for git") from error


def _allowed_lines(layers: Sequence[CompiledLayer], tops: Collection[str]) -> Iterator[bytes]:
    """Yield lines that close all but the allowed paths. What several layers allow in common is not computed."""
    selecting = [layer.allowed for layer in layers if layer.allowed is not None]
    if selecting:
        yield _line(("**",), CLOSED)
    for names in selecting[0].rows if len(selecting) == 1 else ():
        yield from (_line(rest, OPEN) for rest in _in_all(PathGlob(names, compile_name), tops))


def _denied_lines(layers: Sequence[CompiledLayer], tops: Collection[str]) -> Iterator[bytes]:
    """Yield lines that close the denied paths.

    The last matching line counts. So the negations of a layer come before what other layers close; two layers with
    negations could cancel each other, so then neither opens anything. A closed folder stays closed with all in it.
    """
    taking_back = [layer for layer in layers if any(row.negated for row in layer.denied.rows)]
    for layer in sorted(layers, key=lambda layer: layer not in taking_back):
        for row in layer.denied.rows:
            if not row.negated:
                yield from (_line(names, CLOSED, caseless=True) for names in _in_any(row.glob, tops))
            elif len(taking_back) == 1:
                yield from (_line(names, OPEN, caseless=True) for names in _in_all(row.glob, tops))
    for row in (row for layer in layers for row in layer.denied.rows if not row.negated):
        yield from (_line((*names, "**"), CLOSED, caseless=True) for names in _in_any(row.glob, tops))


def _protected_names(hidden: Iterable[Names], tops: Collection[str]) -> Iterator[Names]:
    for names in sorted(hidden):
        for top in (tuple(name.casefold() for name in split_path(top)) for top in tops):
            if names[: len(top)] == top and len(names) > len(top):
                yield tuple(_WILD.sub(r"\\\1", name) for name in names[len(top) :])


def _in_any(glob: PathGlob, tops: Collection[str]) -> Iterable[Names]:
    return dict.fromkeys(names for top in tops for names in _rest(glob, top))


def _in_all(glob: PathGlob, tops: Collection[str]) -> Iterable[Names]:
    return [names for names in _in_any(glob, tops) if all(names in _rest(glob, top) for top in tops)]


def _rest(glob: PathGlob, top: str) -> list[Names]:
    """Return what is left of a pattern below the folder `top`."""
    states = glob.after(split_path(top)) - {glob.end}
    follows_any = {state + 1 for state in states if glob.names[state] == "**"}
    return [glob.names[state:] for state in sorted(states - follows_any)]


def _line(names: Names, attributes: str, *, caseless: bool = False) -> bytes:
    pattern = "/".join(map(_caseless, names) if caseless else names)
    if names == ("**",):
        pattern = "*"
    elif names[0] != "**":
        pattern = f"/{pattern}"
    quoted = _QUOTED.sub(lambda found: b"\\%03o" % found[0][0], pattern.encode("utf-8", "surrogatepass"))
    line = b'"%s" %s\n' % (quoted, attributes.encode())
    if len(line) <= MAX_LINE:
        return line
    return _line(("**",), CLOSED) if attributes == CLOSED else b""


def _caseless(name: str) -> str:
    """Return a pattern that ignores case, as policy does; git minds the case on most disks."""
    return _LETTER.sub(lambda found: _both(found[0]) if len(found[0]) == 1 else found[0], name)


def _both(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]"
