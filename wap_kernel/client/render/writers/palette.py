"""Colour text for a terminal by its role; the signs and words stay, so that the colours are not needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_CODES: Mapping[str, str] = MappingProxyType(
    {
        **{"ok": "32", "failed": "31", "denied": "31", "asks": "33", "busy": "34"},
        **{"added": "32", "removed": "31", "hunk": "36", "muted": "2"},
        **{"type": "1", "strong": "1", "mark": "7"},
    }
)
"""The parameters of the escape sequence of each role; other roles have no colour."""


@dataclass(frozen=True)
class Palette:
    """The colours of a terminal, or none."""

    is_on: bool = False

    def paint(self, text: str, role: str) -> str:
        """Return text that is escaped already in the colour of its role."""
        code = _CODES.get(role) if self.is_on else None
        return text if code is None or not text.strip() else f"\x1b[{code}m{text}\x1b[0m"


NO_COLORS = Palette()
DIFF_ROLES: Mapping[str, str] = MappingProxyType({"+": "added", "-": "removed", "@": "hunk"})
"""The role of a line of a diff, by its first character."""
