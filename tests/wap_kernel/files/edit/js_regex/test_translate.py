"""Patterns drawn from a grammar mean here what they mean in JavaScript, or are refused for a stated reason."""

from __future__ import annotations

import random

import pytest

from tests.support import javascript
from wap_kernel.files.edit.js_regex.replace import replace
from wap_kernel.files.edit.js_regex.translate import translate
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import EditNotFound, InvalidArgument

REFUSED_ON_PURPOSE = ("can match nothing", "octal", "surrogate on its own")

CHARACTERS = "aabbkKsS01_ -.é"
TEXTS = [*"ab k\nS1_", *"ab\r\u2028\ufeff\u00a0\u212a\u017f\u00df\u00e9\u00c9\u03c3\u03c2\u03a3\u00b5-\\{}e"]
ORDINARY = r"""
    a b c ab k S . ^ $ \b \B \d \D \w \W \s \S [ab] [^ab] [a-c] [^] [] [\w-] [\w-.] [\s\S] [^\W] [^\d\s] [a\-z] é \n \.
""".split()
UNUSUAL = [
    *r"""
    [\b] [[] [.*+?^${}()|] [-a] [a-] [k-s] [^k-s] \t \r \0 \cJ \c [\cJ] [\c] \x61 \x6 \u0062 \u00 \u{62} \/ \- \_ \e \a
    \A \Z \G \K \X \h \N \R \p{L} \P{Lu} \p{Lu} [\p{Ll}1] [^\P{L}] \k<n> \1 \2 \3 { } ] {e} {,2} {1 \\ [\]] [b-a] [\w-a]
    [ \ (?#x) (?R) (?i) (?P<x>a) a++ (?>a) \ud83d
    """.split(),
    "\n", "\u03c3", "[\u03c3]",
]  # fmt: skip
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}", "{1,}?", "{0}", "{2,1}", "{e}", "{,2}"]
OPENINGS = ["(", "(", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<n>"]
REPLACEMENTS = ["", "[$&]", "[$1]", "<$1|$2|$3>", "[$<n>]", "$$", "$0$01$10", "$`|$'", "$", "$x$<"]


def pattern(draw: random.Random, depth: int = 0) -> str:
    branches = 1 if draw.random() < 0.8 else 2
    return "|".join("".join(term(draw, depth) for _ in range(draw.choice([0, 1, 1, 2, 3]))) for _ in range(branches))


def term(draw: random.Random, depth: int) -> str:
    if depth < 3 and draw.random() < 0.35:
        atom = f"{draw.choice(OPENINGS)}{pattern(draw, depth + 1)})"
    elif draw.random() < 0.5:
        atom = draw.choice(CHARACTERS)
    else:
        # Seldom unusual, as that is likely to be an error, and one error hides the rest of a pattern.
        atom = draw.choice(ORDINARY if draw.random() < 0.8 else UNUSUAL)
    return atom + (draw.choice(QUANTIFIERS[:10] if draw.random() < 0.9 else QUANTIFIERS) if draw.random() < 0.3 else "")


def drawn(seed: int, count: int) -> list[tuple[str, str, str, str]]:
    draw = random.Random(seed)
    cases = []
    for _ in range(count):
        text = "".join(draw.choice(TEXTS[: draw.choice([3, 9, 99])]) for _ in range(draw.randint(0, 9)))
        flags = "".join(flag for flag in "gimsu" if draw.random() < 0.4)
        cases.append((text, pattern(draw), flags, draw.choice(REPLACEMENTS)))
    return cases


def ours(text: str, pattern: str, flags: str, replacement: str) -> tuple[str, str | None]:
    try:
        return "replaced", replace(text, pattern, replacement, flags, max_size=100_000, deadline=Deadline(60))
    except EditNotFound:
        return javascript.NO_MATCH, None
    except InvalidArgument as error:
        return javascript.THROWS, error.message


@javascript.needs_node
def test_drawn_patterns_do_what_javascript_does() -> None:
    cases = drawn(seed=1, count=4000)
    refused = matched = 0
    for case, expected in zip(cases, javascript.replaced(cases), strict=True):
        kind, text = ours(*case)
        if kind == javascript.THROWS:
            if expected[0] != javascript.THROWS:
                assert any(reason in str(text) for reason in REFUSED_ON_PURPOSE), (case, expected, text)
                refused += 1
            continue
        assert (kind, text) == expected, case
        matched += text is not None
    # The comparison is worth something only while most patterns are understood and many match.
    assert refused < len(cases) * 0.1
    assert matched > len(cases) * 0.3


@pytest.mark.parametrize(
    "pattern",
    [
        "(?V1)a", "(?R)", "(?1)", "(?&x)", "(?i)a", "(?i:a)", "(?#x)", "(?P<n>a)", "(?>a)", "(?|a)", "(?(1)a)",
        "(?<n", "(?<1>a)", "(?<n>a)(?<n>b)", "a++", "a*+", "a?+", "a**", "a{2}{3}", "a{2}+", "*", "{2}", "^*", r"\b+",
        "(?<=a)*", "a{2,1}", "(", ")", "[", "[z-a]", "\\", r"(?<n>a)\k", r"(?<n>a)\k<m>",
    ],
)  # fmt: skip
def test_what_is_not_javascript_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        translate(pattern, "")
    assert "at " in caught.value.message


@pytest.mark.parametrize(
    "pattern",
    [r"\a", r"\p{", r"\p{Greek}", r"\p{sc=Nope}", r"\p{l}", r"\x6", r"\u12", r"\u{110000}", r"\c1", "{", "}", "]",
     "a{,2}", r"[\w-a]", r"\k<n>", r"\-", "(?=a)*"],
)  # fmt: skip
def test_with_the_u_flag_more_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        translate(pattern, "u")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\1", "octal"),
        (r"(a)\2", "octal"),
        (r"[\1]", "octal"),
        (r"\01", "octal"),
        (r"\ud83d", "surrogate"),
        (r"[\ud800-\udbff]", "surrogate"),
        ("(a|b*)*", "match nothing"),
        ("(?:a*?)*", "match nothing"),
        ("(?:(?=(a)))?", "match nothing"),
    ],
)
def test_what_would_not_mean_the_same_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        translate(pattern, "")


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:a{2000}){2000}", "(?:a{60000}){60000}", "a{99999}", "a{0,99999999999999999999}", "a{" + "9" * 5000 + "}",
        "(?:" * 40 + "a" + ")+" * 40, "(?:" * 20 + "a" + "){2,3}" * 20, "(" * 1000 + ")" * 1000, r"\b" * 4500,
        "a" * 10_001,
    ],
)  # fmt: skip
def test_a_pattern_that_would_be_costly_to_compile_is_refused_before(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        translate(pattern, "")


def test_the_bound_leaves_room_for_ordinary_patterns() -> None:
    for pattern in (
        "a{5000}",
        ".{0,60000}",
        "(?:[a-f0-9]{2}:){5}[a-f0-9]{2}",
        "((((a+b)+c)+d)+e)+",
        r"\bword\b|" * 500,
    ):
        translate(pattern, "giu")


def test_a_refusal_does_not_repeat_the_pattern() -> None:
    with pytest.raises(InvalidArgument) as caught:
        translate("password=hunter2(?R)", "")
    assert "hunter2" not in caught.value.text


@pytest.mark.parametrize("flags", ["", "i", "u", "iu"])
def test_nothing_of_the_pattern_is_passed_through(flags: str) -> None:
    source = translate(r"\{e\}#~&|--[[:alpha:&&~~||]", flags).source
    assert not set(source) & set("#~&{}:")
