"""Recognise sed and awk scripts that run no commands and write no files. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from wap_kernel.policy.shell.syntax import Word


@dataclass(frozen=True)
class Language:
    """A small language whose harmless texts can be recognised by their form."""

    harmless: Callable[[str], object]
    flags: str
    valued: str
    text_option: str = ""
    """The option that brings the text instead of the first operand."""
    long_flags: frozenset[str] = field(default_factory=frozenset)

    def is_harmless(self, words: Sequence[Word]) -> bool:
        """Return whether the words after the program are harmless; a script that cannot be read is not."""
        texts: list[str] = []
        operands: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word.may_be_any_option:
                return False
            text = word.text
            if text.startswith("--"):
                if text not in self.long_flags:
                    return False
            elif text.startswith("-") and text != "-":
                value = text[2:]
                if text[1] in self.valued:
                    if not value and not rest:
                        return False
                    given = Word(value) if value else rest.pop(0)
                    if text[1] == self.text_option:
                        texts.append(given.text if given.literal is not None else "$")
                elif set(text[1:]) - set(self.flags):
                    return False
            elif not texts and not operands:
                operands.append(text if word.literal is not None else "$")
        checked = texts or operands[:1]
        return bool(checked) and all(self.harmless(text) for text in checked)


_SED_ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
_SED_COMMAND = re.compile(
    rf"\s*(?P<address>(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?)\s*!?\s*"
    r"(?:[pdqDPNnGgHhx=]|s(?P<mark>[/|#,])(?P<pattern>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gpiI0-9]*)\s*"
)
_BRACKETS = re.compile(r"\[(?!\^?\])[^\]\[]+\]")
"""Brackets that are certainly closed: `[]/]` and `[^]/]` begin with a bracket that they contain."""


def _is_harmless_sed(script: str) -> bool:
    """Return whether the script only prints, deletes and substitutes.

    `e`, `w`, `r` and the flags `e` and `w` of `s` are not harmless. After a separator such a command must follow
    again. A bracket that is open where the pattern seems to end may contain the mark, so that the pattern ends
    elsewhere.
    """
    at = 0
    while found := _SED_COMMAND.match(script, at):
        if "[" in _BRACKETS.sub("", found["address"]) + _BRACKETS.sub("", found["pattern"] or ""):
            return False
        at = found.end()
        if at == len(script):
            return True
        if script[at] not in ";\n":
            return False
        at += 1
    return False


_AWK_ESCAPES = re.compile(r"system|getline|[>@|]")


def _is_harmless_awk(program: str) -> bool:
    """Return whether the program starts and writes nothing; `||` is the one bar that is no pipe."""
    return not _AWK_ESCAPES.search(program.replace("||", ""))


LANGUAGES: Mapping[str, Language] = {
    "sed": Language(
        _is_harmless_sed, "nEruzs", "e", "e", frozenset({"--quiet", "--silent", "--regexp-extended", "--posix"})
    ),
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"),
        Language(_is_harmless_awk, "", "Fv", "", frozenset({"--posix", "--re-interval"})),
    ),
}
"""The languages by the names of their programs."""
