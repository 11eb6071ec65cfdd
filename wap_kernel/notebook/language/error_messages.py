"""Errors in the words of a line: the engine speaks of tools and fields, and a line has sub-commands and options. Pure.

A server's hint comes in one text with its message, so whole sentences are looked for in both. What names a sub-command
has nothing before it: `%wap` stands there in a notebook and nothing in the `wap` kernel.
"""

from __future__ import annotations

import re

from wap_kernel.model.errors import WapError

_SENTENCES = {
    "List it with exploreFiles.": '"ls PATH" lists it.',
    "Change its cells with modifyNotebook.": "Write a notebook that is complete.",
    "Make it first, or pass createDirectories: true.": '"sh mkdir -p PATH" makes it.',
    "Read it with readFile.": '"read PATH" reads it.',
    "Read a part of it with startLine and endLine.": '"read PATH 1:100" reads a part of it.',
    'Read it with encoding "base64".': 'A batch reads it: {"type": "readFile", "path": PATH, "encoding": "base64"}.',
    'search for exact text with type "literal".': "leave out -e to search for exact text.",
    "the file has 1 lines.": "the file has 1 line.",
}
_PAST_THE_END = re.compile(r"^startLine (\d+) is past the end")


def worded(error: WapError) -> WapError:
    """The same error, for whoever wrote a line."""
    error.message, error.hint = _said(error.message), None if error.hint is None else _said(error.hint)
    return error


def _said(text: str) -> str:
    text = _PAST_THE_END.sub(r"Line \1 is past the end", text)
    for theirs, ours in _SENTENCES.items():
        if text.endswith(theirs):  # before it may stand a path, which is left as it is
            return text.removesuffix(theirs) + ours
    return text
