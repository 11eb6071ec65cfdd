"""A query of a search, and the options of rg for it."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.model.limits import MAX_SEARCHED_FILE_BYTES


@dataclass(frozen=True)
class SearchQuery:
    """A text or a pattern to search for, and how."""

    text: str
    regex: bool
    case_sensitive: bool
    max_file_size: int = MAX_SEARCHED_FILE_BYTES

    @property
    def literal(self) -> bytes | None:
        """The bytes to find as they are, or None if only rg can tell what matches."""
        return self.text.encode() if not self.regex and self.case_sensitive else None

    @property
    def folded(self) -> bytes | None:
        """The bytes in lower case that match in either case, or None. ASCII only: rg knows how Unicode folds."""
        is_folded = not self.regex and not self.case_sensitive and self.text.isascii()
        return self.text.lower().encode() if is_folded else None

    @property
    def arguments(self) -> tuple[str, ...]:
        syntax = () if self.regex else ("--fixed-strings",)
        case = "--case-sensitive" if self.case_sensitive else "--ignore-case"
        return (*syntax, case, f"--max-filesize={self.max_file_size}", f"--regexp={self.text}")
