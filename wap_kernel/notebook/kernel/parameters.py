"""Parameters of a notebook: cells of `name = VALUE` lines, as papermill adds one, and `{{name}}` in later cells.

Values are literals, in the form of JSON or Python; nothing is evaluated.
"""

from __future__ import annotations

import ast
import json
import re
import shlex

from wap_kernel.model.errors import InvalidArgument

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)[ \t]*=[ \t]*(\S.*)")
_BRACES = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*)[ \t]*\}\}")


class Parameters:
    """The parameters that the cells of one kernel have set."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def read_cell(self, code: str) -> bool:
        """Set the parameters of a cell that holds nothing else; return whether the cell does."""
        rows = [row.strip() for row in code.splitlines() if row.strip() and not row.lstrip().startswith("#")]
        found = [_ASSIGNMENT.fullmatch(row) for row in rows]
        if not rows or not all(found):
            return False
        self.values |= {match[1]: _parse_value(match[1], match[2]) for match in found if match is not None}
        return True

    def fill_line(self, line: str) -> str:
        """Return a line with its parameters, each as one word in quotes; other braces stay."""
        return _BRACES.sub(lambda found: self._quote(found[1], found[0]), line)

    def _quote(self, name: str, braces: str) -> str:
        if name not in self.values:
            return braces
        value = self.values[name]
        return shlex.quote(value if isinstance(value, str) else json.dumps(value))


def _parse_value(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        value = ast.literal_eval(text)
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise InvalidArgument(
            f"{name}: the value is no text, number, list or mapping.", hint=f'Write: {name} = "some text"'
        ) from None
