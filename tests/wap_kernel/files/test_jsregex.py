"""regexReplace means what JavaScript means. Expected values were written down from ECMAScript's rules."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from wap_kernel.errors import Code, WapError
from wap_kernel.files.jsregex import replace

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
]


@pytest.mark.parametrize(("text", "pattern", "flags", "replacement", "expected"), CASES)
def test_as_in_javascript(text: str, pattern: str, flags: str, replacement: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(WapError) as caught:
            replace(text, pattern, replacement, flags, max_size=1000)
        assert caught.value.code is Code.EDIT_NOT_FOUND
    else:
        assert replace(text, pattern, replacement, flags, max_size=1000) == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, the reference")
def test_the_table_itself_is_what_javascript_says() -> None:
    script = """
      const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
      const replaced = ([text, pattern, flags, replacement]) =>
        new RegExp(pattern, flags).test(text) ? text.replace(new RegExp(pattern, flags), replacement) : null;
      process.stdout.write(JSON.stringify(cases.map(replaced)));
    """
    sent = json.dumps([case[:4] for case in CASES])
    answer = subprocess.run(["node", "-e", script], input=sent, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [case[4] for case in CASES]
