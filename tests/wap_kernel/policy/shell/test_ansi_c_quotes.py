"""What bash itself makes of `$'...'` is the reference."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wap_kernel.policy.shell import ansi_c_quotes

PIECES = st.sampled_from(
    [*"\\abcdefnrtuvxUE?0178{}[] '\"", "\\x", "\\u", "\\U", "\\c", "\\0", "\\163", "\\x{73}", "é", "sudo"]
)


def by_bash(quoted: str) -> bytes:
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quoted}"],
        capture_output=True,
        check=False,
        timeout=20,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    return done.stdout


@settings(max_examples=60)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_it_reads_what_bash_reads(inner: str) -> None:
    quoted = f"$'{inner}'"
    found = ansi_c_quotes.QUOTED.match(quoted.encode())
    if found is None or found.end() != len(quoted.encode()):
        return
    ours = ansi_c_quotes.decode_ansi_c(found[1])
    # A code point beyond UTF-8 is bash's own affair; names are ASCII.
    if b"?" not in ours and b"\xef\xbf\xbd" not in ours:
        assert ours == by_bash(quoted)


@pytest.mark.parametrize(
    "quoted",
    [
        r"$'\163udo'",
        r"$'\x73udo'",
        r"$'\x{73}udo'",
        r"$'\u0073udo'",
        r"$'\U00000073udo'",
        r"$'sudo\0junk'",
        r"s$'\165'do",
        r"$'s'$'\165do'",
    ],
)
def test_every_spelling_of_a_name(quoted: str) -> None:
    assert by_bash(quoted) == b"sudo"
    assert ansi_c_quotes.expand_ansi_c(f"{quoted} id") == "sudo id"


@pytest.mark.parametrize("text", ["echo $HOME", "echo 'a'", "echo $'open", "\ud800 echo"])
def test_other_text_stays(text: str) -> None:
    assert ansi_c_quotes.expand_ansi_c(text) == text
