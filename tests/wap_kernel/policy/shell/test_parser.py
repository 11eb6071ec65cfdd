"""What is read out of command lines, and what is not read for certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.model.limits import MAX_LOOSE_TREE_CHARACTERS, MAX_PARSED_COMMAND_CHARACTERS
from wap_kernel.policy.shell.parser import Redirect, Word, parse_command


def words(command: str) -> list[list[str]]:
    return [[word.text for word in each.words] for each in parse_command(command).commands]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", []),
        (" \n\t# only a comment 'here", []),
        ("ls", [["ls"]]),
        ("ls;", [["ls"]]),
        ("ls -l;cat a&&wc b||true|sort", [["ls", "-l"], ["cat", "a"], ["wc", "b"], ["true"], ["sort"]]),
        ("a |& b", [["a"], ["b"]]),
        ("a\n\n\nb &&\n c |\nd", [["a"], ["b"], ["c"], ["d"]]),
        ("a 'b c' \"d e\" f\\ g ''", [["a", "b c", "d e", "f g", ""]]),
        ("a 'b'\"c\"d\\e", [["a", "bcde"]]),
        ("a 'x\ny' \"x\ny\"", [["a", "x\ny", "x\ny"]]),
        ('a "\\$x \\\\ \\" \\n"', [["a", '$x \\ " \\n']]),
        ("a \\\n  b", [["a", "b"]]),
        ("a b#c # d\ne", [["a", "b#c"], ["e"]]),
        ("a $ \"$\" 'x$'", [["a", "$", "$", "x$"]]),
        ("a {} x{}y", [["a", "{}", "x{}y"]]),
        ("a b=c --d=e", [["a", "b=c", "--d=e"]]),
        ("a ! !! x!", [["a", "!", "!!", "x!"]]),
        ("[ -f x ] && [ a = b ]", [["[", "-f", "x", "]"], ["[", "a", "=", "b", "]"]]),
        ("a <<'E' | b\n$(c) 'x\nE\nd", [["a"], ["b"], ["d"]]),
        ("a - <<E\nplain\nE", [["a", "-"]]),
        ("a <<< 'b c'", [["a"]]),
        ("a é 漢", [["a", "é", "漢"]]),
        ("set -euo pipefail; a", [["set", "-euo", "pipefail"], ["a"]]),
    ],
)
def test_plain_scripts_are_read(command: str, expected: list[list[str]]) -> None:
    assert parse_command(command).problems == ()
    assert words(command) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$X", Word("$X", known=False, splits=True)),
        ("${X}", Word("$X", known=False, splits=True)),
        ("$?", Word("$?", known=False, splits=True)),
        ('"a $X"', Word("a $X", known=False)),
        ("'$X'", Word("$X")),
        ("\\$X", Word("$X")),
        ("*.py", Word("*.py", glob=True)),
        ("a?", Word("a?", glob=True)),
        ("[ab]", Word("[ab]", glob=True)),
        ("'*'", Word("*")),
        ("\\*", Word("*")),
        ("[", Word("[")),
        ("~", Word("~", home=True)),
        ("~/x", Word("~/x", home=True)),
        ("'~'", Word("~")),
        ("a~", Word("a~")),
        ("a=~", Word("a=~", known=False, splits=True)),
    ],
)
def test_words(text: str, expected: Word) -> None:
    script = parse_command(f"a {text}")
    assert script.problems == ()
    assert script.commands[0].words[1] == expected


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        *(("$X", True), ("a$X", True), ('"$X"', True), ('"-$X"', True), ("*", True), ("?x", True), ("-*", True)),
        *(('"a$X"', False), ("./*", False), ("a*", False), ("-x", False), ("a", False), ("''", False)),
    ],
)
def test_what_may_become_an_option(text: str, may_be: bool) -> None:
    assert parse_command(f"a {text}").commands[0].words[1].may_be_any_option is may_be


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a > f", [Redirect(Word("f"), "write")]),
        ("a >f 2>>g <h", [Redirect(Word("f"), "write"), Redirect(Word("g"), "append"), Redirect(Word("h"), "read")]),
        ("a >| 'f g'", [Redirect(Word("f g"), "write")]),
        ("a &> f", [Redirect(Word("f"), "write")]),
        ("a &>> f", [Redirect(Word("f"), "append")]),
        ("a >& f", [Redirect(Word("f"), "write")]),
        ("a > ~/f", [Redirect(Word("~/f", home=True), "write")]),
        ("a > /dev/sda", [Redirect(Word("/dev/sda"), "write")]),
        ("a 2>&1 >/dev/null 2> /dev/stderr 1>&2 </dev/zero", []),
        ("cd x; a > /f", [Redirect(Word("/f"), "write")]),
    ],
)
def test_redirections(command: str, expected: list[Redirect]) -> None:
    script = parse_command(command)
    assert script.problems == ()
    assert [redirect for each in script.commands for redirect in each.redirects] == expected


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        *(("a $(b)", "command substitution"), ("a `b`", "command substitution"), ('a "`b`"', "command substitution")),
        *(("a <(b)", "process substitution"), ("a $((1))", "command substitution"), ("a $[1]", "arithmetic")),
        *(("a ${b:-c}", "parameter expansion"), ("a ${!b}", "parameter expansion"), ("a $1", "special parameter")),
        *(
            ("a $@", "special parameter"),
            ("a $'b'", "$'...'"),
            ('a $"b"', '$"..."'),
            ("a {b,c}", "group or brace expansion"),
        ),
        *(("a {1..3}", "group or brace expansion"), ("{ a; }", "group"), ("( a )", "subshell"), ("a &", "background")),
        *(
            ("! a", "compound command: !"),
            ("if a; then b; fi", "if statement"),
            ("for a in b; do c; done", "for statement"),
        ),
        *(
            ("while a; do b; done", "while statement"),
            ("case a in b) c;; esac", "case statement"),
            ("f() { a; }", "function"),
        ),
        *(("function f { a; }", "function"), ("coproc a", "compound command: coproc"), ("[[ a ]]", "program named")),
        *(
            ("(( 1 ))", "subshell"),
            ("a=b", "leading assignment"),
            ("a=b c", "leading assignment"),
            ("a[1]=b c", "leading"),
        ),
        *(
            ("a+=b c", "leading assignment"),
            ("a=(b c)", "leading assignment"),
            ("$a b", "program named by an expansion"),
        ),
        *(
            ('"$a" b', "program named by an expansion"),
            ("a* b", "program named"),
            ("~/a", "program named"),
            ("'' a", "program"),
        ),
        *(
            ("a ~root", "home folder of another user"),
            ("a 'b", "quote without its end"),
            ('a "b', "quote without its end"),
        ),
        *(
            ("a \\", "backslash at the end"),
            ("a &&", "parse error"),
            ("&& a", "parse error"),
            ("a ;; b", "parse error"),
        ),
        *(("; a", "parse error"), ("a || && b", "parse error"), ("a )", "subshell"), ("> f", "redirection without")),
        *(
            ("a > $b", "redirection to an expansion"),
            ("a > *", "redirection to an expansion"),
            ("a > ''", "redirection to"),
        ),
        *(("a <> b", "redirection <>"), ("a > /dev/tcp/x/1", "redirection to the network"), ("a {b}> c", "brace")),
        *(
            ("a <&b", "redirection <&"),
            ("a >&-", "redirection >&"),
            ("a > 3>&1", "parse error"),
            ("a <<<3>b", "parse error"),
            ("a > b c", "two readings"),
            ("cd a; b > c", "redirection after cd"),
        ),
        *(
            ("a <<E\n$b\nE", "heredoc with expansion"),
            ("a <<E\n`b`\nE", "heredoc with expansion"),
            ("a <<E\nb", "heredoc"),
        ),
        *(
            ("a <<-E\nE", "redirection <<-"),
            ("a <<\\E\nE", "heredoc"),
            ("a <<E <<F\nE\nF", "heredoc"),
            ("a <<E \\\nE", "heredoc"),
        ),
        *(
            ("a <<E 'x\ny'\nE", "heredoc"),
            ("a <<'E'b\nE", "heredoc"),
            ("a 3<<E\nE", "heredoc"),
            ("su\\\ndo a", "two readings"),
        ),
        *(
            ("a\r\n", "control"),
            ("a\x00b", "control"),
            ("a\x1bb", "control"),
            ("a\u00a0b", "control"),
            ("a\u2028b", "control"),
        ),
        *(("a\u200bb", "control"), ("a\ud800", "control"), ("a\ufeff", "control"), ("a\x0bb", "control")),
        *(("eval a", "eval"), ("source a", "source"), (". a", "."), ("exec a", "exec"), ("alias a=b", "alias")),
        *(
            ("shopt -s extglob", "shopt"),
            ("set -f", "set"),
            ("set -- a", "set"),
            ("set -o posix", "set"),
            ("trap a EXIT", "trap"),
        ),
        *(
            ("export a=b", "export"),
            ("declare a", "declare"),
            ("readonly a", "readonly"),
            ("unset a", "unset"),
            ("read a", "read"),
        ),
        *(
            ("hash -p a b", "hash"),
            ("enable -f a b", "enable"),
            ("let a=1", "let"),
            ("mapfile a", "mapfile"),
            ("fc -s", "fc"),
        ),
        *(("printf -v a b", "printf into"), ("printf -va b", "printf into"), ('printf "$a" b', "printf into")),
        *(("test -v a", "test of"), ("[ -R a ]", "test of"), ('[ "$a" "$b" ]', "test of"), ("[ $a = b ]", "test of")),
        *(
            (f"a {'b' * MAX_PARSED_COMMAND_CHARACTERS}", "longer"),
            (f"$( {'b' * MAX_LOOSE_TREE_CHARACTERS} )", "longer"),
            ("a;" * 201, "more than 200 commands"),
        ),
        *(
            ("$(" * 1000, "command substitution"),
            ("( " * 100 + "a" + " )" * 100, "too deeply nested"),
            ("a|" * 30_000, "more than 200"),
        ),
    ],
)
def test_everything_else_is_a_problem(command: str, problem: str) -> None:
    assert any(problem in each for each in parse_command(command).problems), parse_command(command).problems


@pytest.mark.parametrize(
    "command",
    [
        *(
            "$(x)",
            "`x`",
            "a $(b $(x))",
            '"$(x)"',
            "a <(x)",
            "{ x; }",
            "( x )",
            "if x; then a; fi",
            "if a; then x; fi",
            "! x",
        ),
        *(
            "for a in b; do x; done",
            "f() { x; }",
            "case a in b) x;; esac",
            "a=$(x)",
            "a=b x",
            "export a=$(x)",
            "a & x",
            "x &",
        ),
        *(
            "a ${b:-$(x)}",
            "a <<E\n$(x)\nE",
            "a $(\nx\n)",
            "[[ -n $(x) ]]",
            "a=(b $(x))",
            "while a; do b; x; done",
            "a 'b\nx",
            "x\r",
        ),
    ],
)
def test_commands_are_found_wherever_they_stand(command: str) -> None:
    script = parse_command(command)
    assert script.problems
    if "'" not in command:  # within an open quote there is no command
        assert ["x"] in words(command), words(command)


@given(
    st.text(
        st.sampled_from("{}$<([#\"'`\\\n =.,;|&1a\u00e9\u4e00\U0001f600\U00031860\U000e0100\U0010ffff"), max_size=60
    )
)
def test_no_character_ends_the_process(text: str) -> None:
    """After `{`, tree-sitter-bash 0.25.1 reads beyond a table of the C library at a character beyond ASCII."""
    parse_command(text)


@pytest.mark.parametrize("word", ["é", "日本語.txt", "a/\U0001f600"])
def test_words_beyond_ascii_are_read(word: str) -> None:
    assert parse_command(f"cat {word} '{word}' \"{word}\"").problems == ()
    assert words(f"cat {word} '{word}' \"{word}\"") == [["cat", word, word, word]]
