"""argparse for lines in a notebook: it never prints and never ends the process, and suggests what was meant."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, NoReturn

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_MAGIC_COMMAND_SECONDS, MAX_MAGIC_WAIT_SECONDS


class HelpAsked(Exception):
    """`--help` stands in the line; carries the name of the sub-command."""


class Arguments(argparse.ArgumentParser):
    """The arguments of one sub-command."""

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(
            prog=name, description=summary, add_help=False, allow_abbrev=False, formatter_class=_Narrow, usage=None
        )
        self.add_argument("-h", "--help", action=_Help, help="show this")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Positionals and options in any order."""
        # What follows `--` are positionals; argparse cannot do both.
        parse = self.parse_known_args if "--" in words else self.parse_known_intermixed_args
        options, rest = parse(list(words))
        if rest:
            self._refuse(rest[0])
        return options

    def flags(self, without: Container[str] = ()) -> list[str]:
        """All but those of the options named so."""
        return [flag for action in self._actions if action.dest not in without for flag in action.option_strings]

    def wants_value(self, word: str) -> bool:
        """Whether the value of this option, or of the last of these (`-yt`), is the next word."""
        wanting = {flag for action in self._actions if action.nargs is None for flag in action.option_strings}
        if word.startswith("--"):
            return word in wanting
        return f"-{word[-1]}" in wanting and not any(f"-{letter}" in wanting for letter in word[1:-1])

    def error(self, message: str) -> NoReturn:
        told = message if message.endswith("?") else f"{message}."
        raise InvalidArgument(f"{self.prog}: {told}", hint=f"Write: {self._form()}")

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"there is no place for {word!r}")
        flag = word.partition("=")[0]
        self.error(f"there is no option {flag}{meant(flag, self.flags())}")

    def _form(self) -> str:
        return " ".join(self.format_usage().removeprefix("usage: ").split())


class _Help(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        raise HelpAsked(parser.prog)


class _Narrow(argparse.RawDescriptionHelpFormatter):
    """The same width everywhere: a kernel's terminal has none."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        kwargs["width"] = 100
        super().__init__(prog, max_help_position=30, **kwargs)


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` where something known is near."""
    near = difflib.get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def window(text: str) -> tuple[int, int | None]:
    """`10:20`, `10:`, `:20` or `10`: the first and the last line, counted from 1; None: to the end."""
    found = re.fullmatch(r"([0-9]{1,9})?(:)?([0-9]{1,9})?", text)
    if found is None or not (found[1] or found[3]):
        raise argparse.ArgumentTypeError(f"lines are written as 10:20, 10: or :20, not {text!r}")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else None if found[2] else first
    if first < 1 or (last is not None and last < first):
        raise argparse.ArgumentTypeError(f"lines are counted from 1, and the last follows the first, not {text!r}")
    return first, last


def seconds(text: str) -> float:
    found = _number(text)
    if found > MAX_MAGIC_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(f"a day, {MAX_MAGIC_WAIT_SECONDS:,} seconds, is the longest, not {text}")
    return found


def time_limit(text: str) -> float:
    found = _number(text)
    if not 1 <= found <= MAX_MAGIC_COMMAND_SECONDS:
        raise argparse.ArgumentTypeError(f"a command is given 1 to {MAX_MAGIC_COMMAND_SECONDS:,} seconds, not {text}")
    return found


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def name(text: str) -> str:
    """The name of a Python variable."""
    import keyword

    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name for a variable")
    return text
