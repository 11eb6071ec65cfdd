"""The law of grants: the same words are covered, or other names after one of a few pairs; never anything else."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.budgets import choose_budget
from tests.support.grant_workspace import ASKING, grantable, run, verdict
from wap_kernel.model.operations import RunCommand
from wap_kernel.policy.decide import VerdictKind
from wap_kernel.policy.grants import TOLERANCES

HARMLESS = ("ls && ", "ls; ", " | cat", " && ls")


@dataclass(frozen=True)
class Line:
    """A command that is run in some way."""

    words: tuple[str, ...]
    redirect: str = ""
    cwd: str = "."
    before: str = ""
    after: str = ""

    @property
    def operation(self) -> RunCommand:
        return run(f"{self.before}{shlex.join(self.words)}{self.redirect}{self.after}", cwd=self.cwd)

    @property
    def context(self) -> tuple[str, ...]:
        """All that is not the words, but for what changes nothing."""
        around = ("" if each in HARMLESS else each for each in (self.before, self.after))
        return (self.redirect, self.cwd, *around)

    @property
    def arguments(self) -> list[str]:
        """Without what is said in a commit's message."""
        words = list(self.words[2:])
        while self.words[:2] == ("git", "commit") and "-m" in words:
            at = words.index("-m")
            words[at : at + 2] = ["--message"]
        return words

    @property
    def options(self) -> set[str]:
        return {word for word in self.arguments if word.startswith("-")}

    @property
    def is_wide(self) -> bool:
        """Of one of the few pairs, with operands that are nothing but names."""
        name = r"(?!.*\.\.)[\w./][\w./-]*" if self.words[0] == "git" else r"\w[\w-]*(==[\d.]+)?"
        operands = (word for word in self.arguments if not word.startswith("-"))
        return self.words[:2] in TOLERANCES and all(re.fullmatch(name, word) for word in operands)


programs = st.sampled_from([*(("git", sub) for sub in "add commit fetch pull push rebase".split())]) | st.sampled_from(
    [("pip", "install"), ("npm", "install"), ("uv", "run"), ("uv", "add"), ("rm",), ("frob",), ("docker", "exec")]
)
rest = st.sampled_from(
    "origin main a b -x -m -q -U -i --force --rebase --exec=x -- +main :main a:b ext::sh ../a ./a a.zip a@b "
    "https://evil/x x==1.2 id".split()
)
lines = st.builds(
    Line,
    words=st.builds(lambda program, more: (*program, *more), programs, st.lists(rest, max_size=3)),
    redirect=st.sampled_from(["", "", " > out", " >> out", " < in"]),
    cwd=st.sampled_from([".", ".", "sub"]),
    before=st.sampled_from(["", "", "", "ls && ", "ls; ", "cd sub && ", "env -C sub ", "timeout 5 ", "cat a | "]),
    after=st.sampled_from(["", "", " | cat", " && ls", " <<< x"]),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Line, Line]:
    """Two lines that differ in one thing, or in one word."""
    one = draw(lines)
    name = draw(st.sampled_from(["words", "words", "words", "redirect", "cwd", "before", "after"]))
    if name != "words":
        return one, replace(one, **{name: getattr(draw(lines), name)})
    at = draw(st.integers(min(2, len(one.words)), len(one.words)))
    skipped = draw(st.integers(0, 1))
    words = (*one.words[:at], *draw(st.lists(rest, max_size=2)), *one.words[at + skipped :])
    return one, replace(one, words=words)


@settings(max_examples=choose_budget(suite=250, soak=5000))
@given(pairs())
def test_a_grant_covers_the_same_words_or_other_names_after_a_wide_pair(pair: tuple[Line, Line]) -> None:
    one, other = pair
    grant = grantable(one.operation, ASKING)
    if grant is None or verdict(other.operation, ASKING, grants=(grant,)).kind is VerdictKind.ASK:
        return
    assert one.context == other.context
    similar = one.words[:2] == other.words[:2] and one.options == other.options
    assert one.words == other.words or (similar and one.is_wide and other.is_wide)


@given(lines)
def test_the_same_line_is_covered_by_its_own_grant(line: Line) -> None:
    grant = grantable(line.operation, ASKING)
    assert verdict(line.operation, ASKING).grantable is (grant is not None)
    if grant is not None:
        assert verdict(line.operation, ASKING, grants=(grant,)).kind is VerdictKind.ALLOW
