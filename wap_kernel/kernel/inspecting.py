"""What is told about the place where the cursor stands: the help of a sub-command or an operation, and for a line that
would do something what policy says to it. Nothing is done."""

from __future__ import annotations

from collections.abc import Callable

from wap_kernel.client.answers import Answer, Note
from wap_kernel.client.hands import Hands
from wap_kernel.errors import WapError
from wap_kernel.kernel import kinds
from wap_kernel.kernel.reading import BATCHES, is_in_text, row_at, with_text, word_at
from wap_kernel.language import COMMANDS, Line, operations, usage
from wap_kernel.language.lines import understand
from wap_kernel.render import bundle


def inspect(code: str, cursor: int, hands: Callable[[], Hands]) -> dict[str, str]:
    """A bundle; empty where there is nothing to tell."""
    line = with_text(code)
    if line is not None and is_in_text(line, code, cursor):
        return _operation(word_at(code, cursor)) if line.command.name in BATCHES else {}
    row = row_at(code, cursor)
    name, rest = [*row.text.split(None, 1), "", ""][:2]
    if not name or name not in COMMANDS:
        return {}
    is_beyond = cursor > row.start + row.text.index(name) + len(name)
    told: list[Answer] = [Note({"text": usage(name)})]
    if rest and is_beyond:
        told = [*_verdict(line, row.text, hands), *told]
    return _joined(told)


def _operation(word: str) -> dict[str, str]:
    return _joined([Note({"text": kinds.describe(word)})]) if word in kinds.names() else {}


def _verdict(line: Line | None, text: str, hands: Callable[[], Hands]) -> list[Answer]:
    """Nothing where the line cannot be understood yet, or nobody can be asked."""
    try:
        wanted = operations(line or understand(text))
        return [hands().check(wanted)] if wanted else []
    except WapError:
        return []


def _joined(answers: list[Answer]) -> dict[str, str]:
    bundles = [bundle(answer, prefix="") for answer in answers]
    return {
        "text/plain": "\n\n".join(one["text/plain"] for one in bundles),
        "text/html": "".join(one["text/html"] for one in bundles),
    }
