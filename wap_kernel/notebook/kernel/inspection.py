"""Describe the text at the cursor: the help of a sub-command or operation, and the verdict of policy on a line."""

from __future__ import annotations

from time import monotonic

from wap_kernel.client.render import bundle
from wap_kernel.client.results import ClientResult, Note
from wap_kernel.model.errors import WapError
from wap_kernel.notebook.kernel import operation_help
from wap_kernel.notebook.kernel.cell_position import BATCHES, is_in_text, line_at, parse_text_cell, word_at
from wap_kernel.notebook.language import COMMANDS, Line, list_operations, usage
from wap_kernel.notebook.language.line_parser import parse_words
from wap_kernel.notebook.language.lookup import Lookup

PATIENCE = 2.0
"""Seconds that a verdict may take; after them, only the documentation is returned."""


def inspect(code: str, cursor: int, lookup: Lookup) -> dict[str, str]:
    """Return a bundle, or an empty one where there is nothing to describe."""
    until = monotonic() + PATIENCE
    line = parse_text_cell(code)
    if line is not None and is_in_text(line, code, cursor):
        return _operation(word_at(code, cursor)) if line.command.name in BATCHES else {}
    row = line_at(code, cursor)
    name, rest = [*row.text.split(None, 1), "", ""][:2]
    if not name or name not in COMMANDS:
        return {}
    is_beyond = cursor > row.start + row.text.index(name) + len(name)
    described: list[ClientResult] = [Note({"text": usage(name, has_python=False)})]
    if rest and is_beyond:
        described = [*_verdict(line, row.text, lookup, until), *described]
    return _join(described)


def _operation(word: str) -> dict[str, str]:
    return _join([Note({"text": operation_help.describe_operation(word)})]) if word in operation_help.names() else {}


def _verdict(line: Line | None, text: str, lookup: Lookup, until: float) -> list[ClientResult]:
    """Return the verdict on a line; empty where the line is incomplete or the workspace does not answer in time."""
    try:
        operations = list_operations(line or parse_words(text))
    except WapError:
        return []
    found = lookup.ask(text, lambda client: client.check(operations), until) if operations else None
    return [] if found is None else [found]


def _join(answers: list[ClientResult]) -> dict[str, str]:
    bundles = [bundle(answer, prefix="") for answer in answers]
    return {
        "text/plain": "\n\n".join(one["text/plain"] for one in bundles),
        "text/html": "".join(one["text/html"] for one in bundles),
    }
