"""Any text has words, and quotes keep their characters from being special."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.policy.shell.expansion import expand_word, find_assignments
from wap_kernel.policy.shell.loose_lexer import restore_quoted, split_loosely


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in split_loosely(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\tc", [["a", "b", "c"]]),
        ("a; b && c || d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a'b'\"c\"\\d", [["abcd"]]),
        ("a $'b\\x63\\'' d", [["a", "bc'", "d"]]),
        ('a $"b"', [["a", "b"]]),
        ("a # b 'c\nd", [["a"], ["d"]]),
        ("a b#c \\ #d", [["a", "b#c", " #d"]]),
        ("a\\\nb \\\n c", [["ab", "c"]]),
        ('"a\\\nb"', [["ab"]]),
        ("a <b >c 2>&1 >>d", [["a", "b", "c", "1", "d"]]),
        ("a $(b `c`) <(d)", [["a"], ["b"], ["c"], ["d"]]),
        ("(a) { b; }", [["a"], ["{", "b"], ["}"]]),
        ("a 'b", [["a", "b"]]),
        ("", []),
        (";;|", []),
    ],
)
def test_words(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_redirections_and_operators_are_known() -> None:
    first, second = split_loosely("a <b 2>>c <<<'d'; | e")
    assert [word.redirect for word in first.words] == ["", "<", ">>", "<<<"]
    assert (first.before, second.before) == ("", ";|")


@given(st.lists(st.text(st.characters(exclude_categories=["C"])), min_size=1))
def test_quoted_words_come_back(names: list[str]) -> None:
    assert words(shlex.join(names)) == [names]


@given(st.text())
def test_no_text_fails(text: str) -> None:
    for command in split_loosely(text):
        for word in command.words:
            expand_word(word.live, {})


@pytest.mark.parametrize(
    ("text", "expected", "is_complete"),
    [
        ("a", {"a"}, True),
        ("$x", {"one", "two", ""}, True),
        ("'$x'", {"$x"}, True),
        ("\\$x", {"$x"}, True),
        ('"$x/${x}"', {"one/one", "one/two", "two/one", "two/two", "one/", "two/", "/one", "/two", "/"}, True),
        ("{a,b}c", {"ac", "bc"}, True),
        ("'{a,b}'", {"{a,b}"}, True),
        ("~/a", {"/home/me/a", "~/a"}, True),
        ("'~/a'", {"~/a"}, True),
        ("a~", {"a~"}, True),
        ("~you/a", {"~you/a"}, False),
        ("$unknown", {""}, False),
        ("$unset", {""}, False),
        ("${x%o}", {"${x%o}"}, False),
        ("$1", {"$1"}, False),
        ('"$(a)"', {"$(a)"}, False),
        ("{1..20}", {"{1..20}"}, False),
        ("a$spaced", {"ab c", "a"}, False),
        ("$spaced", {"b c", ""}, True),
    ],
)
def test_expansions(text: str, expected: set[str], is_complete: bool) -> None:
    variables = {"x": ("one", "two"), "unknown": None, "HOME": ("/home/me",), "spaced": ("b c",)}
    ((word,),) = (command.words for command in split_loosely(text))
    expansion = expand_word(word.live, variables)
    assert {*map(restore_quoted, expansion.texts)} == expected
    assert expansion.is_complete == is_complete


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=a", ("a",)),
        ("x=a; x='b c'", ("a", "b c")),
        ("y=a; x=$y/b", ("a/b", "/b")),
        ("for x in a b; do c; done", ("a", "b")),
        ("export x=a && b", ("a",)),
        ("x=a; x+=b", None),
        ("x=$(a)", ("",)),
        ("x=$y", None),
        ("x=a; x=$1", None),
        ("echo x", ()),
    ],
)
def test_assignments(text: str, value: tuple[str, ...] | None) -> None:
    assert find_assignments(split_loosely(text), {}).get("x", ()) == value
