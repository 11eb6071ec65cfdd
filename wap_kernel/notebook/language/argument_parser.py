"""Parse the arguments of a line with argparse, without printing or exiting, and suggest corrections."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, NoReturn

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_MAGIC_COMMAND_SECONDS, MAX_MAGIC_WAIT_SECONDS


class HelpRequested(Exception):
    """The line contains `--help`; the exception carries the name of the sub-command."""


class Arguments(argparse.ArgumentParser):
    """The arguments of one sub-command."""

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(
            prog=name,
            description=summary,
            add_help=False,
            allow_abbrev=False,
            formatter_class=_FixedWidthFormatter,
            usage=None,
        )
        self.add_argument("-h", "--help", action=_Help, help="show this")

    def parse_words(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse positionals and options in any order."""
        # Words after `--` are positionals; argparse cannot do both.
        parse = self.parse_known_args if "--" in words else self.parse_known_intermixed_args
        options, rest = parse(list(words))
        if rest:
            self._reject(rest[0])
        return options

    def flags(self, without: Container[str] = ()) -> list[str]:
        """Return all flags but those of the options in `without`."""
        return [flag for action in self._actions if action.dest not in without for flag in action.option_strings]

    def takes_value(self, word: str) -> bool:
        """Return whether the next word is the value of this option, or of the last of these (`-yt`)."""
        valued = {flag for action in self._actions if action.nargs is None for flag in action.option_strings}
        if word.startswith("--"):
            return word in valued
        return f"-{word[-1]}" in valued and not any(f"-{letter}" in valued for letter in word[1:-1])

    def error(self, message: str) -> NoReturn:
        sentence = message if message.endswith("?") else f"{message}."
        raise InvalidArgument(f"{self.prog}: {sentence}", hint=f"Write: {self._usage_line()}")

    def _reject(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"unexpected word {word!r}")
        flag = word.partition("=")[0]
        self.error(f"there is no option {flag}{suggest(flag, self.flags())}")

    def _usage_line(self) -> str:
        return " ".join(self.format_usage().removeprefix("usage: ").split())


class _Help(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        raise HelpRequested(parser.prog)


class _FixedWidthFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter with a fixed width, because the process of a kernel has no terminal."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        kwargs["width"] = 100
        super().__init__(prog, max_help_position=30, **kwargs)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` for the nearest known word, or an empty text."""
    near = difflib.get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def parse_line_range(text: str) -> tuple[int, int | None]:
    """Parse `10:20`, `10:`, `:20` or `10` into the first and the last line, counted from 1; None: to the end."""
    match = re.fullmatch(r"([0-9]{1,9})?(:)?([0-9]{1,9})?", text)
    if match is None or not (match[1] or match[3]):
        raise argparse.ArgumentTypeError(f"lines are written as 10:20, 10: or :20, not {text!r}")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else None if match[2] else first
    if first < 1 or (last is not None and last < first):
        raise argparse.ArgumentTypeError(f"lines are counted from 1, and the last follows the first, not {text!r}")
    return first, last


def parse_seconds(text: str) -> float:
    value = _parse_number(text)
    if value > MAX_MAGIC_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(f"a day, {MAX_MAGIC_WAIT_SECONDS:,} seconds, is the longest, not {text}")
    return value


def parse_time_limit(text: str) -> float:
    value = _parse_number(text)
    if not 1 <= value <= MAX_MAGIC_COMMAND_SECONDS:
        raise argparse.ArgumentTypeError(f"a command is given 1 to {MAX_MAGIC_COMMAND_SECONDS:,} seconds, not {text}")
    return value


def _parse_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def parse_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def parse_variable_name(text: str) -> str:
    """Return `text` if it can be the name of a Python variable."""
    import keyword

    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name for a variable")
    return text
