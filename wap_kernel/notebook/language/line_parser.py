"""From text to a line: which sub-command, with which options, over which text."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_MAGIC_LINE_CHARACTERS
from wap_kernel.notebook.language import aliases
from wap_kernel.notebook.language.argument_parser import Arguments, HelpAsked
from wap_kernel.notebook.language.commands import COMMANDS, NAMELESS, Command, find

_WORD = re.compile(r"""\s*((?:[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+)""", re.DOTALL)
_BATCH = re.compile(r"[\[{]|-(?:\s|$)|---|(?:\"?(?:operations|protocolVersion)\"?)\s*:")
"""How a batch begins, and no sub-command does."""
_NO_OPTION = re.compile(r": there is no option \S+\.$")
"""Nor one that is near."""

MAGIC = re.compile(r"%{1,2}wap(?:\s+|$)")


@dataclass(frozen=True)
class Line:
    command: Command
    options: argparse.Namespace
    body: str | None = None
    """The text below the line, in a cell."""
    first_line: int = 1
    """That text's first line, counted in the cell."""
    row: int | None = None
    """Where the line itself stands, in a cell of several."""


def parse(text: str) -> Line:
    """What follows `%wap`."""
    line = understand(text)
    if needs_body(line):
        raise InvalidArgument(
            f"{line.command.name}: the text is missing.", hint=f"Put it below, in a cell that begins with %%wap {text}"
        )
    return line


def parse_cell(head: str, body: str, first_line: int = 2) -> Line:
    """What follows `%%wap`, and the text below; options alone are those of `run`."""
    head, body = head.strip(), _unix(body)
    line = understand(head, heads_cell=True)
    if line.command.name == "help":
        return line
    if not line.command.body:
        raise InvalidArgument(f"{line.command.name} takes no text below it.", hint=f"Write it in a line: %wap {head}")
    if not needs_body(line):
        raise InvalidArgument(f"{line.command.name}: there is a text in the line and one below.", hint="Leave one out.")
    return Line(line.command, line.options, body, first_line)


def parse_script(text: str) -> list[Line]:
    """A cell of the `wap` kernel: a batch, which may have its options above it; or `write PATH`, `sh` or `run` over
    its text; or lines, one after another.

    A line that ends in a backslash goes on in the next; one that begins with `#` is for people. Who is used to `%wap`
    and `%%wap` may write them.
    """
    text = _unix(text)
    rows = list(_logical(text))
    if not rows:
        return []
    first = rows[0]
    if _BATCH.match(first.text):
        return [parse_cell("", _below(text, first.begins), first.begins)]
    body = _below(text, first.ends + 1)
    is_over_batch = first.text.startswith("-") and len(rows) > 1 and _BATCH.match(rows[1].text) is not None
    if (first.is_head or is_over_batch) and body.strip():
        return [parse_cell(first.text, body, first.ends + 1)]
    if len(rows) == 1:
        return [parse(first.text)]
    if _opens_text(first) and body.strip():
        return [parse_cell(first.text, body, first.ends + 1)]
    return [_on_row(row) for row in rows]


def _opens_text(row: _Row) -> bool:
    try:
        return needs_body(understand(row.text))
    except InvalidArgument as error:
        raise _of_row(error, row) from None


def _on_row(row: _Row) -> Line:
    try:
        return replace(parse(row.text), row=row.begins)
    except InvalidArgument as error:
        raise _of_row(error, row) from None


def _of_row(error: InvalidArgument, row: _Row) -> InvalidArgument:
    error.details.setdefault("line", row.begins)
    return error


def needs_body(line: Line) -> bool:
    """Its text is not in the line."""
    given = "content" if line.command.name == "write" else "command"
    return line.command.body and getattr(line.options, given, None) is None


def understand(text: str, *, heads_cell: bool = False) -> Line:
    """A line, whether or not its text stands in it. Options alone are those of the overview, or of the batch below."""
    name, rest = _first_word(text)
    if name in ("-h", "--help") and not heads_cell:
        return Line(COMMANDS["help"], COMMANDS["help"].arguments().read([]))
    if name and not name.startswith("-"):
        return _of(find(name, rest), rest)
    try:
        return _of(COMMANDS["run" if heads_cell else NAMELESS], text)
    except InvalidArgument as error:
        instead = _options_first(text, "%%wap" if heads_cell else "%wap")
        raise instead or (None if heads_cell else _of_batch(text)) or error from None


def _of_batch(text: str) -> InvalidArgument | None:
    """`--atomic` alone: there is no batch for it."""
    try:
        _of(COMMANDS["run"], text)
    except InvalidArgument:
        return None
    return InvalidArgument(
        f"{text.split()[0]} is for a batch, and there is none.",
        hint=f"Put it below, in a cell that begins with %%wap {text.strip()}",
    )


def _options_first(text: str, magic: str) -> InvalidArgument | None:
    """`--yes sh make`: a sub-command comes later."""
    words = text.split()
    place = next((place for place, word in enumerate(words) if word in COMMANDS), None)
    if place is None:
        return None
    line = " ".join((words[place], *words[:place], *text.split(None, place + 1)[place + 1 :]))
    return InvalidArgument(f"{words[place]}: its options stand after it.", hint=f"Write: {magic} {line}")


def _of(command: Command, rest: str) -> Line:
    try:
        given = command.arguments()
        return Line(command, _verbatim(command, given, rest) if command.verbatim else given.read(_words(rest)))
    except HelpAsked:
        return Line(COMMANDS["help"], COMMANDS["help"].arguments().read([command.name]))
    except InvalidArgument as error:
        if command.name in aliases.PROGRAMS and _NO_OPTION.search(error.message):
            error.hint = f"Write it as a command: %wap sh {command.name} {rest.strip()}"
        raise


def _first_word(text: str) -> tuple[str, str]:
    found = text.split(None, 1)
    return (found[0], found[1] if len(found) > 1 else "") if found else ("", "")


def _words(text: str) -> list[str]:
    if len(text) > MAX_MAGIC_LINE_CHARACTERS:
        raise InvalidArgument(
            f"The line is too long: {len(text)} characters, at most {MAX_MAGIC_LINE_CHARACTERS}.",
            hint="A text for a file stands below, in a cell that begins with %%wap write PATH.",
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"The line cannot be read: {str(error).lower()}.", hint="Close the quotes.") from None


def _verbatim(command: Command, given: Arguments, text: str) -> argparse.Namespace:
    """Options as far as there are any; what follows is one text."""
    if command.bare:
        options = given.read([text.strip()] if text.strip() in ("-h", "--help") else [])
        options.command = text.strip() or None
        return options
    place, words = 0, list[str]()
    while (found := _WORD.match(text, place)) and found[1].startswith("-"):
        place = found.end()
        if found[1] == "--":
            break
        words.append(found[1])
        if given.wants_value(found[1]) and (value := _WORD.match(text, place)):
            words.append(value[1])
            place = value.end()
    options = given.read(_words(" ".join(words)))
    options.command = text[place:].strip() or None
    return options


# -- scripts


class _Row(NamedTuple):
    """A line that says something, with the numbers of the first and the last line that it stands on."""

    begins: int
    ends: int
    text: str
    """Without a `%wap`."""
    is_head: bool
    """It begins with `%%wap`."""


def _logical(text: str) -> Iterator[_Row]:
    begins, kept = 0, ""
    for number, row in enumerate(text.split("\n"), 1):
        if not kept and (not row.strip() or row.lstrip().startswith("#")):
            continue
        begins = begins if kept else number
        if row.endswith("\\"):
            kept += row[:-1] + " "
            continue
        yield _row(begins, number, kept + row)
        kept = ""
    if kept.strip():
        yield _row(begins, text.count("\n") + 1, kept)


def _row(begins: int, ends: int, text: str) -> _Row:
    text = text.strip()
    magic = MAGIC.match(text)
    return _Row(begins, ends, text[magic.end() :] if magic else text, text.startswith("%%") and magic is not None)


def _unix(text: str) -> str:
    """How the lines of a cell end is its editor's matter, and nothing that a file or a script should have."""
    return text.replace("\r\n", "\n")


def _below(text: str, line: int) -> str:
    """From that line on, with a newline at its end, as IPython hands over the text of a cell."""
    below = "\n".join(text.split("\n")[line - 1 :])
    return below if not below or below.endswith("\n") else below + "\n"
