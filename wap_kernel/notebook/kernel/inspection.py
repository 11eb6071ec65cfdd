"""What is told about the place where the cursor stands: the help of a sub-command or an operation, and for a line that
would do something what policy says to it. Nothing is done."""

from __future__ import annotations

from time import monotonic

from wap_kernel.client.render import bundle
from wap_kernel.client.results import Answer, Note
from wap_kernel.model.errors import WapError
from wap_kernel.notebook.kernel import operation_help
from wap_kernel.notebook.kernel.cell_position import BATCHES, is_in_text, row_at, with_text, word_at
from wap_kernel.notebook.language import COMMANDS, Line, operations, usage
from wap_kernel.notebook.language.line_parser import understand
from wap_kernel.notebook.language.lookup import Lookup

PATIENCE = 2.0
"""Seconds that a verdict may take; after that there is the documentation alone."""


def inspect(code: str, cursor: int, lookup: Lookup) -> dict[str, str]:
    """A bundle; empty where there is nothing to tell."""
    until = monotonic() + PATIENCE
    line = with_text(code)
    if line is not None and is_in_text(line, code, cursor):
        return _operation(word_at(code, cursor)) if line.command.name in BATCHES else {}
    row = row_at(code, cursor)
    name, rest = [*row.text.split(None, 1), "", ""][:2]
    if not name or name not in COMMANDS:
        return {}
    is_beyond = cursor > row.start + row.text.index(name) + len(name)
    told: list[Answer] = [Note({"text": usage(name, has_python=False)})]
    if rest and is_beyond:
        told = [*_verdict(line, row.text, lookup, until), *told]
    return _joined(told)


def _operation(word: str) -> dict[str, str]:
    return _joined([Note({"text": operation_help.describe(word)})]) if word in operation_help.names() else {}


def _verdict(line: Line | None, text: str, lookup: Lookup, until: float) -> list[Answer]:
    """Nothing where the line cannot be understood yet, or nobody answers."""
    try:
        wanted = operations(line or understand(text))
    except WapError:
        return []
    found = lookup.ask(text, lambda hands: hands.check(wanted), until) if wanted else None
    return [] if found is None else [found]


def _joined(answers: list[Answer]) -> dict[str, str]:
    bundles = [bundle(answer, prefix="") for answer in answers]
    return {
        "text/plain": "\n\n".join(one["text/plain"] for one in bundles),
        "text/html": "".join(one["text/html"] for one in bundles),
    }
