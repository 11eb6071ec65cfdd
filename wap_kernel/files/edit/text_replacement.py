r"""Replace a literal text in the bytes of a file, whatever line endings the caller writes. Pure.

In a file whose lines all end alike, the old and the new text get that ending before they are compared and inserted. In
a file with both kinds the exact text counts; where it does not occur, the text with other line endings does, and the
new text gets the ending of the lines that it replaces.
"""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.files.edit.closest_match import find_closest
from wap_kernel.files.edit.newlines import (
    LF,
    Region,
    convert_newlines,
    find_ending,
    find_regions,
    find_usual_ending,
)
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import EditAmbiguous, EditNotFound, InvalidArgument, TooLarge

QUOTED_CHARACTERS = 50
"""Characters of a text that an error quotes."""


@dataclass(frozen=True)
class TextReplacement:
    """The occurrences of a text in a file, and what replaces them."""

    data: bytes
    old: bytes
    new: bytes
    regions: list[Region] | None = None
    """The occurrences by other line endings, where the exact text does not occur. None: `old` occurs as it is."""

    @property
    def count(self) -> int:
        return self.data.count(self.old) if self.regions is None else len(self.regions)

    @property
    def is_unique(self) -> bool:
        """True if there is one occurrence, and no other that overlaps it."""
        if self.regions is None:
            return self.data.find(self.old) == self.data.rfind(self.old)
        return len(self.regions) == 1

    def apply(self, count: int, max_size: int) -> bytes:
        """Return the content with the first `count` occurrences replaced."""
        if self.regions is None:
            check_size(len(self.data) + count * (len(self.new) - len(self.old)), max_size)  # before it is built
            return self.data.replace(self.old, self.new, count)
        parts, done = [], 0
        usual = find_usual_ending(self.data)
        for region in self.regions[:count]:
            ending = find_ending(self.data[region.start : region.end]) or usual
            parts += [self.data[done : region.start], convert_newlines(self.new, ending)]
            done = region.end
            check_size(sum(map(len, parts[-2:])), max_size)
        return b"".join([*parts, self.data[done:]])


def replace_text(data: bytes, change: ReplaceText, max_size: int) -> bytes:
    """Return the content with the text replaced; raise if it does not occur, or too often."""
    found = locate_text(data, change)
    count = found.count
    if not count:
        near = find_closest(data.decode("utf-8", "replace"), change.old_content)
        raise EditNotFound(
            f'Could not find content to replace: "{change.old_content[:QUOTED_CHARACTERS]}..."',
            hint="Read the file again: the text must be the same, character for character.",
            **({} if near is None else {"closest": near.to_dict()}),
        )
    if change.which == "only" and not found.is_unique:
        raise EditAmbiguous(
            "The text to replace occurs more than once.",
            hint="Add lines around it until it occurs once, or replace every occurrence.",
            occurrences=count,
        )
    return found.apply(count if change.which == "every" else 1, max_size)


def locate_text(data: bytes, change: ReplaceText) -> TextReplacement:
    """Return where the text of the edit occurs; raise InvalidArgument for one that could change nothing."""
    old, new = encode_text(change.old_content), encode_text(change.new_content)
    if not old:
        raise InvalidArgument("The text to replace is empty.", hint="Name some text of the file.")
    ending = find_ending(data)
    if ending is not None:
        old, new = convert_newlines(old, ending), convert_newlines(new, ending)
    if old == new:
        raise InvalidArgument(
            "The old and the new text are identical.",
            hint="Leave the edit out, or send a text that differs in more than its line endings.",
        )
    # A text without a line ending occurs in one form only.
    is_exact = ending is not None or LF not in old or old in data
    return TextReplacement(data, old, new, None if is_exact else find_regions(data, old))


def check_size(size: int, max_size: int) -> None:
    if size > max_size:
        raise TooLarge(f"The result would be larger than {max_size} bytes.", maxWriteSize=max_size)


def encode_text(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"The content is not Unicode text: half a character at {error.start}.") from None
