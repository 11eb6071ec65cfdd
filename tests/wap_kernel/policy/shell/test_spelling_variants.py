"""Other ways to write the same text: what bash itself makes of them is the reference."""

from __future__ import annotations

import subprocess

import pytest

from wap_kernel.policy.shell.spelling_variants import MAX_STEPS, expand_braced_word, list_spellings, normalize


def by_bash(text: str) -> str:
    done = subprocess.run(
        ["bash", "-c", text], capture_output=True, check=True, timeout=20, env={"LC_ALL": "C.UTF-8", "PATH": "/bin"}
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    "text",
    [
        "echo a\\\nb 'a\\\nb' \"a\\\nb\"",
        r"echo $'a\\' b $'it\'s' $'\163\x75'",
        "echo \"$'a'\" '$' \\$'a' # don't\necho $'b'",
        "echo '\\' $'c'",
    ],
)
def test_plain_text_means_the_same(text: str) -> None:
    changed = normalize(text)
    assert by_bash(changed) == by_bash(text)
    assert changed != text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("s'u'\"d\"\\o id", "sudo id"),
        ("s\\\nudo id", "sudo id"),
        ("env -S'sudo id'", "env -S sudo id "),
        ("$'\\163udo' id", "sudo id"),
        ('"$\'\\0"; x=sudo; "\'"', "$0; x=sudo; "),
        ("${x:-s}udo", "sudo"),
        ("${x+sudo} id", "sudo id"),
        ("s${x}u$@d``o id", "sudo id"),
        ("su$x'do' id", "sudo id"),
        ("${a:-${b:-s$@u}do} id", "sudo id"),
        ("IFS=_; x=sudo_id", "IFS= ; x=sudo id"),
    ],
)
def test_a_name_is_among_the_spellings(text: str, meant: str) -> None:
    assert meant in list_spellings(text)


@pytest.mark.parametrize("word", ["s{u,}do", "{s,}u{d,}o", "{a,{b,c}}d", "s{u..w}do", "{c..a}", "a{,b,}{c,d}"])
def test_braces_stand_for_what_bash_makes_of_them(word: str) -> None:
    assert set(expand_braced_word(word)) == set(by_bash(f"printf '%s\\n' {word}").splitlines())


@pytest.mark.parametrize("word", ["sudo", "{}", "{a}", "${a,}", "{a", "{a,b}" * 1000])
def test_other_words_stand_for_themselves(word: str) -> None:
    assert list(expand_braced_word(word)) == []


def test_the_number_of_words_is_bounded() -> None:
    assert len(list(expand_braced_word("{a,b}" * 100))) < MAX_STEPS
