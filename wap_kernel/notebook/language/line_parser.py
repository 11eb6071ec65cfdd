"""Parse text into lines: the sub-command, its options, and the text below it."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_MAGIC_LINE_CHARACTERS
from wap_kernel.notebook.language import aliases
from wap_kernel.notebook.language.argument_parser import Arguments, HelpRequested
from wap_kernel.notebook.language.commands import COMMANDS, DEFAULT_COMMAND, SubCommand, find_command

_WORD = re.compile(r"""\s*((?:[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+)""", re.DOTALL)
_BATCH = re.compile(r"[\[{]|-(?:\s|$)|---|(?:\"?(?:operations|protocolVersion)\"?)\s*:")
"""The beginning of a batch, with which no sub-command begins."""
_NO_OPTION = re.compile(r": there is no option \S+\.$")
"""An error for an option without a near match."""

MAGIC = re.compile(r"%{1,2}wap(?:\s+|$)")


@dataclass(frozen=True)
class Line:
    """A parsed line."""

    command: SubCommand
    options: argparse.Namespace
    body: str | None = None
    """The text below the line, in a cell."""
    first_line: int = 1
    """The line of the cell where the text begins."""
    row: int | None = None
    """The number of the line itself, in a cell with several."""


def parse(text: str) -> Line:
    """Parse the text after `%wap`."""
    line = parse_words(text)
    if needs_body(line):
        raise InvalidArgument(
            f"{line.command.name}: the text is missing.",
            hint=f"Put the text below, in a cell that begins with %%wap {text}",
        )
    return line


def parse_cell(head: str, body: str, first_line: int = 2) -> Line:
    """Parse the text after `%%wap` and the text below; options alone are those of `run`."""
    head, body = head.strip(), _normalize_newlines(body)
    line = parse_words(head, heads_cell=True)
    if line.command.name == "help":
        return line
    if not line.command.body:
        raise InvalidArgument(f"{line.command.name} takes no text below it.", hint=f"Write it as a line: %wap {head}")
    if not needs_body(line):
        raise InvalidArgument(
            f"{line.command.name}: there is a text in the line and another below.", hint="Leave one out."
        )
    return Line(line.command, line.options, body, first_line)


def parse_script(text: str, fill: Callable[[str], str] = str) -> list[Line]:
    """Parse a cell of the `wap` kernel; `fill` fills the parameters of a line, not those of a text below it.

    A cell holds a batch, which may have its options above it; or `write PATH`, `sh` or `run` over its text; or lines. A
    line that ends in a backslash continues in the next; one that begins with `#` is a comment. A line may begin with
    `%wap` or `%%wap`.
    """
    text = _normalize_newlines(text)
    rows = list(_split_rows(text))
    if not rows:
        return []
    first = rows[0]
    if _BATCH.match(first.text):
        return [parse_cell("", _text_from(text, first.begins), first.begins)]
    rows = [row._replace(text=fill(row.text)) for row in rows]
    first = rows[0]
    body = _text_from(text, first.ends + 1)
    is_over_batch = first.text.startswith("-") and len(rows) > 1 and _BATCH.match(rows[1].text) is not None
    if (first.is_head or is_over_batch) and body.strip():
        return [parse_cell(first.text, body, first.ends + 1)]
    if len(rows) == 1:
        return [parse(first.text)]
    if _opens_text(first) and body.strip():
        return [parse_cell(first.text, body, first.ends + 1)]
    return [_parse_row(row) for row in rows]


def _opens_text(row: _Row) -> bool:
    try:
        return needs_body(parse_words(row.text))
    except InvalidArgument as error:
        raise _add_line_number(error, row) from None


def _parse_row(row: _Row) -> Line:
    try:
        return replace(parse(row.text), row=row.begins)
    except InvalidArgument as error:
        raise _add_line_number(error, row) from None


def _add_line_number(error: InvalidArgument, row: _Row) -> InvalidArgument:
    error.details.setdefault("line", row.begins)
    return error


def needs_body(line: Line) -> bool:
    """Return whether the text of a line must stand below it."""
    name = "content" if line.command.name == "write" else "command"
    return line.command.body and getattr(line.options, name, None) is None


def parse_words(text: str, *, heads_cell: bool = False) -> Line:
    """Parse a line, with or without its text; options alone are those of the overview, or of the batch below."""
    name, rest = _first_word(text)
    if name in ("-h", "--help") and not heads_cell:
        return Line(COMMANDS["help"], COMMANDS["help"].arguments().parse_words([]))
    if name and not name.startswith("-"):
        return _parse_options(find_command(name, rest), rest)
    try:
        return _parse_options(COMMANDS["run" if heads_cell else DEFAULT_COMMAND], text)
    except InvalidArgument as error:
        instead = _order_error(text, "%%wap" if heads_cell else "%wap")
        raise instead or (None if heads_cell else _batch_error(text)) or error from None


def _batch_error(text: str) -> InvalidArgument | None:
    """Return the error for options of a batch without one, such as `--atomic` alone."""
    try:
        _parse_options(COMMANDS["run"], text)
    except InvalidArgument:
        return None
    return InvalidArgument(
        f"{text.split()[0]} is for a batch, and there is none.",
        hint=f"Put the batch below, in a cell that begins with %%wap {text.strip()}",
    )


def _order_error(text: str, magic: str) -> InvalidArgument | None:
    """Return the error for options before their sub-command, such as `--yes sh make`."""
    words = text.split()
    index = next((index for index, word in enumerate(words) if word in COMMANDS), None)
    if index is None:
        return None
    line = " ".join((words[index], *words[:index], *text.split(None, index + 1)[index + 1 :]))
    return InvalidArgument(
        f"{words[index]}: the options must stand after the sub-command.", hint=f"Write: {magic} {line}"
    )


def _parse_options(command: SubCommand, rest: str) -> Line:
    try:
        parser = command.arguments()
        return Line(
            command, _parse_verbatim(command, parser, rest) if command.verbatim else parser.parse_words(_words(rest))
        )
    except HelpRequested:
        return Line(COMMANDS["help"], COMMANDS["help"].arguments().parse_words([command.name]))
    except InvalidArgument as error:
        if command.name in aliases.PROGRAMS and _NO_OPTION.search(error.message):
            error.hint = f"Write it as a command: %wap sh {command.name} {rest.strip()}"
        raise


def _first_word(text: str) -> tuple[str, str]:
    parts = text.split(None, 1)
    return (parts[0], parts[1] if len(parts) > 1 else "") if parts else ("", "")


def _words(text: str) -> list[str]:
    if len(text) > MAX_MAGIC_LINE_CHARACTERS:
        raise InvalidArgument(
            f"The line is too long: {len(text)} characters, at most {MAX_MAGIC_LINE_CHARACTERS}.",
            hint="Put a text for a file below, in a cell that begins with %%wap write PATH.",
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"The line cannot be read: {str(error).lower()}.", hint="Close the quotes.") from None


def _parse_verbatim(command: SubCommand, parser: Arguments, text: str) -> argparse.Namespace:
    """Parse the options, and take the rest as one text."""
    if command.bare:
        options = parser.parse_words([text.strip()] if text.strip() in ("-h", "--help") else [])
        options.command = text.strip() or None
        return options
    offset, words = 0, list[str]()
    while (match := _WORD.match(text, offset)) and match[1].startswith("-"):
        offset = match.end()
        if match[1] == "--":
            break
        words.append(match[1])
        if parser.takes_value(match[1]) and (value := _WORD.match(text, offset)):
            words.append(value[1])
            offset = value.end()
    options = parser.parse_words(_words(" ".join(words)))
    options.command = text[offset:].strip() or None
    return options


# -- scripts


class _Row(NamedTuple):
    """A logical line, with the numbers of its first and last row."""

    begins: int
    ends: int
    text: str
    """The text of the line, without a `%wap`."""
    is_head: bool
    """True for a line that begins with `%%wap`."""


def _split_rows(text: str) -> Iterator[_Row]:
    begins, pending = 0, ""
    for number, row in enumerate(text.split("\n"), 1):
        if not pending and (not row.strip() or row.lstrip().startswith("#")):
            continue
        begins = begins if pending else number
        if row.endswith("\\"):
            pending += row[:-1] + " "
            continue
        yield _row(begins, number, pending + row)
        pending = ""
    if pending.strip():
        yield _row(begins, text.count("\n") + 1, pending)


def _row(begins: int, ends: int, text: str) -> _Row:
    text = text.strip()
    magic = MAGIC.match(text)
    return _Row(begins, ends, text[magic.end() :] if magic else text, text.startswith("%%") and magic is not None)


def _normalize_newlines(text: str) -> str:
    """Return `text` with LF line ends, because CRLF comes from the editor and belongs into no file or script."""
    return text.replace("\r\n", "\n")


def _text_from(text: str, line: int) -> str:
    """Return the text from `line` on, with a newline at its end, as IPython passes the text of a cell."""
    below = "\n".join(text.split("\n")[line - 1 :])
    return below if not below or below.endswith("\n") else below + "\n"
