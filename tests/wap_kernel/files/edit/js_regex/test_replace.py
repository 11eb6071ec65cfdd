"""regexReplace means what JavaScript means. Expected values were written down from ECMAScript's rules."""

from __future__ import annotations

import pytest
import regex

from tests.support import javascript
from wap_kernel.files.edit.js_regex import replace as jsregex
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Code, EditNotFound, InvalidArgument, TimedOut, TooLarge, WapError


def replace(text: str, pattern: str, replacement: str, flags: str) -> str:
    return jsregex.replace(text, pattern, replacement, flags, max_size=1000, deadline=Deadline(60))


CASES = [
    # text, pattern, flags, replacement, expected
    ("aXbX", "X", "", "-", "a-bX"),
    ("aXbX", "X", "g", "-", "a-b-"),
    (
        "oldAPI.method(x) oldAPI.method(y)",
        r"oldAPI\.method\(([^)]+)\)",
        "g",
        "newAPI.improvedMethod($1)",
        "newAPI.improvedMethod(x) newAPI.improvedMethod(y)",
    ),
    ("ab", "(a)(b)", "", "$2$1", "ba"),
    ("ab", "(?<x>a)", "", "[$<x>]", "[a]b"),
    ("ab", "(a)", "", "[$<x>]", "[$<x>]b"),
    ("ab", "(?<x>a)", "", "[$<y>]", "[]b"),
    ("ab", "b", "", "[$&]", "a[b]"),
    ("ab", "b", "", "$$1", "a$1"),
    ("abc", "b", "", "[$`|$']", "a[a|c]c"),
    ("ab", "(a)", "", "$10", "a0b"),
    ("ab", "a", "", "$1", "$1b"),
    ("ab", "a", "", "$", "$b"),
    ("ab", "(z)?a", "", "[$1]", "[]b"),
    ("ab", "a", "", "\\n", "\\nb"),
    ("AB", "a", "i", "x", "xB"),
    ("a\nb\n", "$", "g", "!", "a\nb\n!"),
    ("a\nb\n", "^", "g", "!", "!a\nb\n"),
    ("a\nb", "^", "gm", "> ", "> a\n> b"),
    ("a\nb", "$", "gm", ";", "a;\nb;"),
    ("a\r\nb\r\n", ".*b.*", "", "X", "a\r\nX\r\n"),
    ("a\r\nb", "a$", "m", "X", "X\r\nb"),
    ("a\nb", "a.b", "", "X", None),
    ("a\nb", "a.b", "s", "X", "X"),
    ("a.b", r"\.", "", "-", "a-b"),
    ("a/b", r"\/", "", "-", "a-b"),
    ("a]b", r"[\]]", "", "-", "a-b"),
    ("a[b", "[[]", "", "-", "a-b"),
    ("ab", "[^]", "", "-", "-b"),
    ("a^b", "[$^.]", "", "-", "a-b"),
    ("aa bb", r"(\w)\1", "g", "<$1>", "<a> <b>"),
    ("aa", r"(?<q>a)\k<q>", "", "x", "x"),
    ("price: 5", r"(?<=: )\d", "", "6", "price: 6"),
    ("😀", r"\u{1F600}", "u", "x", "x"),
    ("😀", r"\ud83d\ude00", "u", "x", "x"),
    ("😀", r"\ud83d\ude00", "", "x", "x"),
    # what the regex module would take for something of its own
    ("foo", "fob{e}", "", "X", None),
    ("ab{e}", "b{e}", "", "X", "aX"),
    ("foo", "(?:fob){i}", "", "X", None),
    ("foo", "(?:fob){e<=1}", "", "X", None),
    ("aaa a{,3}", "a{,3}", "", "X", "aaa X"),
    ("a{", "a{", "", "X", "X"),
    ("a{1", "a{1", "", "X", "X"),
    ("xA", r"\A", "", "-", "x-"),
    ("ZGMXKhNaRL", r"\Z\G\M\X\K\h\N\a\R\L", "", "-", "-"),
    ("m<n", r"\m<n", "", "-", "-"),
    ("p{L}", r"\p{L}", "", "-", "-"),
    # sets of characters
    ("é٣\u00a0", r"\w|\d", "g", "-", None),
    ("\ufeffa", r"^\s", "", "", "a"),
    ("\x1c", r"\s", "", "", None),
    ("éa", r"\ba", "", "-", "é-"),
    ("a-.b", r"[\w-.]+", "", "X", "X"),
    ("a\nb", r"[\s\S]+", "", "X", "X"),
    ("é", r"[^\W]", "", "X", None),
    ("a", "[]", "", "X", None),
    ("&&~", "[&&~]+", "", "X", "X"),
    ("[:alpha:]", "[[:alpha:]]", "", "X", "[:alphaX"),
    ("-", "[a\\-z]", "", "X", "X"),
    ("m", "[a\\-z]", "", "X", None),
    ("éa", r"\p{L}+", "u", "X", "X"),
    ("a1", r"[^\p{L}]", "u", "X", "aX"),
    ("\u03b1", r"\p{Script=Greek}", "u", "X", "X"),
    # escapes
    ("a\tb", r"\cI", "", "-", "a-b"),
    ("\\c1", r"\c1", "", "-", "-"),
    ("\x11", r"[\c1]", "", "-", "-"),
    ("x6", r"\x6", "", "-", "-"),
    ("u12", r"\u12", "", "-", "-"),
    ("uuu", r"\u{3}", "", "-", "-"),
    ("k<n>", r"\k<n>", "", "-", "-"),
    # the case
    ("k\u212a", "K", "gi", "-", "-\u212a"),
    ("k\u212a", "K", "giu", "-", "--"),
    ("\u017fs", "S", "gi", "-", "\u017f-"),
    ("i\u0131\u0130I", "i", "gi", "-", "-\u0131\u0130-"),
    ("\u03a3\u03c3\u03c2", "\u03c3", "gi", "-", "---"),
    ("aB", "[^b]", "gi", "-", "-B"),
    ("abAB", r"(a)b\1", "i", "-", "-B"),
    ("aA", r"\p{Lu}", "giu", "-", "--"),
    # groups that took no part
    ("ab", r"(x)?\1ab", "", "-", "-"),
    ("ab", r"\1(a)b", "", "-", "-"),
    ("aa", r"(a\1)", "", "[$1]", "[a]a"),
    ("ab", "(?:(a)|b)*", "", "[$1]", "[]"),
    ("ab", r"(?:\1(a|b))*", "", "[$1]", "[b]"),
    ("1053", r"(?<=(\d+)(\d+))$", "", "[$1|$2]", "1053[1|053]"),
    ("aab", r"(?<=\1(a))b", "", "[$1]", "aa[a]"),
    ("ab", "(?!(b))a", "", "[$1]", "[]b"),
    # matches of nothing
    ("abxd", "x*", "g", "-", "-a-b--d-"),
    ("a", "|a", "g", "-", "-a-"),
    ("ab", "(?=b)", "g", "-", "a-b"),
]


@pytest.mark.parametrize(("text", "pattern", "flags", "replacement", "expected"), CASES)
def test_as_in_javascript(text: str, pattern: str, flags: str, replacement: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(WapError) as caught:
            replace(text, pattern, replacement, flags)
        assert caught.value.code is Code.EDIT_NOT_FOUND
    else:
        assert replace(text, pattern, replacement, flags) == expected


@javascript.needs_node
def test_the_table_itself_is_what_javascript_says() -> None:
    expected = [(javascript.NO_MATCH, None) if case[4] is None else ("replaced", case[4]) for case in CASES]
    assert javascript.replaced(CASES) == expected


def test_what_was_not_found_is_in_the_details_and_not_in_the_message() -> None:
    with pytest.raises(EditNotFound) as caught:
        replace("text", "password=hunter2", "", "")
    assert "hunter2" not in caught.value.text
    assert caught.value.details["pattern"] == "password=hunter2"


def test_the_time_is_that_of_the_call_if_less_is_left() -> None:
    with pytest.raises(TimedOut):
        jsregex.replace("x" * 5000, "(x+x+)+y", "", "", max_size=9999, deadline=Deadline(0.01))
    with pytest.raises(TimedOut):
        jsregex.replace("x", "x", "", "", max_size=9999, deadline=Deadline(0))


def test_the_result_is_bounded_while_it_grows() -> None:
    with pytest.raises(TooLarge):
        replace("x" * 500, "x", "$`$'", "g")


@pytest.mark.parametrize("error", [MemoryError, ValueError, OverflowError, RecursionError, regex.error("bad")])
def test_a_pattern_that_cannot_be_compiled_is_the_fault_of_the_request(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(jsregex.regex, "compile", fail)
    with pytest.raises(InvalidArgument):
        replace("a", "a", "", "")
