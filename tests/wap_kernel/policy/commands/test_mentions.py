"""What a text names that nobody can read for certain."""

from __future__ import annotations

import pytest

from wap_kernel.policy.commands.mentions import CommandPattern, Mentions

SUDO, RM, CLEAN = (
    CommandPattern(("sudo",)),
    CommandPattern(("rm",), (("-r", "--recursive"),)),
    CommandPattern(("git", "clean")),
)
BOTH = CommandPattern.of_blocked("rm -rf /")
WANTED = (SUDO, RM, CLEAN)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(("frob sudo", SUDO), ("frob /usr/bin/sudo", SUDO), ("frob --with=sudo", SUDO), ("frob SUDO", SUDO)),
        *(("frob x-sudo", None), ("frob --sudo", None), ("frob sudoku", None), ("frob sudo.txt", None)),
        *(("frob /usr/bin/s*o", SUDO), ("frob sud?", SUDO), ("frob s*", None), ("frob *", None), ("frob a/s*", None)),
        *(("frob rm -rf x", RM), ("frob 'rm x --rec'", RM), ("frob -r rm x", None), ("frob rm; frob -r", None)),
        *(("frob --rm -r x", None), ("frob rm -f x", None), ("x=rm; $x -r y", RM), ("o=-r; frob rm $o", RM)),
        *(("sort -r $f; frob rm x", None), ("frob rm $f; sort x", None), ("frob {rm,-rf}", RM), ("/bin/r? -r", RM)),
        *(("git clean", CLEAN), ("git -C x --y clean", CLEAN), ("git commit -m clean", None), ("git; clean", None)),
        *(("x=clean; git $x", CLEAN), ("x=git; $x clean", CLEAN), ("make clean; git x", None)),
    ],
)
def test_commands_are_found_with_their_options(text: str, found: CommandPattern | None) -> None:
    assert Mentions([text]).first(WANTED) == found


def test_parts_of_words_count_where_nothing_can_be_read() -> None:
    assert [Mentions([text], parts=True).first([SUDO]) for text in ("${x-sudo} id", "sudo_id", "--sudo")] == [
        SUDO,
        SUDO,
        None,
    ]


def test_a_variable_holds_what_the_caller_gave() -> None:
    assert Mentions(["$X -rf ~"], ["rm"]).first(WANTED) == RM
    assert Mentions(["frob -rf ~"], ["rm"]).first(WANTED) is None


def test_a_blocked_command_is_found_with_all_its_options() -> None:
    assert [Mentions([text]).first([BOTH]) for text in ("frob rm -fr /", "frob rm -r /")] == [BOTH, None]
