"""One glob as a row of names, followed name by name. Pure.

Nothing backtracks across folders, and it is known on the way whether something below may match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

Matcher = Callable[[str], bool]

_WILD = re.compile(r"[*?\[\\]")


def compile_name(pattern: str) -> Matcher:
    """Whether a name fits a pattern for one name."""
    if not _WILD.search(pattern):
        return pattern.__eq__
    if pattern[0] == "*" and not _WILD.search(pattern, 1):  # like most, and three times as fast
        ending = pattern[1:]
        return lambda name: name.endswith(ending)
    from wcmatch import fnmatch  # 20 ms that an import of the package need not take

    (expression,), _ = fnmatch.translate(pattern, flags=fnmatch.CASE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX)
    fits = re.compile(expression).fullmatch
    return lambda name: fits(name) is not None


def _any_name(_: str) -> bool:
    return True


class PathGlob:
    """A folder has *states*: the positions in the row that its path may have reached."""

    def __init__(self, names: Sequence[str], matcher: Callable[[str], Matcher]) -> None:
        self.names = tuple(
            name for name, before in zip(names, ("", *names), strict=False) if name != "**" or before != "**"
        )
        self.end = len(self.names)
        """The state of a path that matches."""
        self._steps = tuple(None if name == "**" else matcher(name) for name in self.names)
        self.start = self._with_skipped({0})
        """The states of the root."""

    def follow(self, states: frozenset[int], name: str) -> frozenset[int]:
        """The states of an entry called `name`, from those of its folder."""
        reached = set()
        for state in states:
            if state == self.end:
                continue
            step = self._steps[state]
            if step is None:
                reached.add(state)
            elif step(name):
                reached.add(state + 1)
        return self._with_skipped(reached)

    def after(self, names: Iterable[str]) -> frozenset[int]:
        states = self.start
        for name in names:
            states = self.follow(states, name)
            if not states:
                break
        return states

    def ending(self, states: frozenset[int]) -> list[Matcher]:
        """An entry of a folder with these states matches if one of these says so of its name."""
        matchers: list[Matcher] = []
        for state in states - {self.end}:
            step = self._steps[state]
            if step is None:
                if state + 1 == self.end:
                    return [_any_name]
            elif self.end in self._with_skipped({state + 1}):
                matchers.append(step)
        return matchers

    def _with_skipped(self, states: set[int]) -> frozenset[int]:
        """A `**` may stand for nothing."""
        for state in tuple(states):
            while state < self.end and self._steps[state] is None:
                state += 1
                states.add(state)
        return frozenset(states)


class FolderMatcher:
    """What some globs say of the entries of one folder, by their names: a walk asks this, which is fast."""

    def __init__(self, states: Iterable[tuple[PathGlob, frozenset[int]]]) -> None:
        self._states = [(glob, found) for glob, found in states if found]
        self._ending = [matcher for glob, found in self._states for matcher in glob.ending(found)]

    def matches(self, name: str) -> bool:
        for matcher in self._ending:  # noqa: SIM110 - the hot loop of a search for names; `any` takes twice as long
            if matcher(name):
                return True
        return False

    def count(self, names: Iterable[str]) -> int:
        return sum(map(self.matches, names))

    def leads_on(self, name: str) -> bool:
        return any(glob.follow(found, name) - {glob.end} for glob, found in self._states)
