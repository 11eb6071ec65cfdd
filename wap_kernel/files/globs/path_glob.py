"""Match one glob, a row of name patterns, name by name. Pure.

Matching never backtracks across folders and knows at each folder whether a path below may match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

Matcher = Callable[[str], bool]

_WILD = re.compile(r"[*?\[\\]")


def compile_name(pattern: str) -> Matcher:
    """Return a function that tells whether a name matches `pattern`, a pattern for one name."""
    if not _WILD.search(pattern):
        return pattern.__eq__
    if pattern[0] == "*" and not _WILD.search(pattern, 1):  # fast path: most patterns, and three times as fast
        ending = pattern[1:]
        return lambda name: name.endswith(ending)
    from wcmatch import fnmatch  # imported here: it takes 20 ms

    (expression,), _ = fnmatch.translate(pattern, flags=fnmatch.CASE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX)
    fits = re.compile(expression).fullmatch
    return lambda name: fits(name) is not None


def _any_name(_: str) -> bool:
    return True


class PathGlob:
    """A glob whose *states* for a folder are the positions in the row that the folder's path may have reached."""

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
        """Return the states of the entry `name` of a folder with `states`."""
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
        """Return the matchers of names with which an entry of a folder with `states` matches the glob."""
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
        """Add the states after each `**`, which may match no folder at all."""
        for state in tuple(states):
            while state < self.end and self._steps[state] is None:
                state += 1
                states.add(state)
        return frozenset(states)


class FolderMatcher:
    """The globs for the entries of one folder, matched by name alone, which makes a walk fast."""

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
