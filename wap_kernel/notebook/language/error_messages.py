"""Word errors for a person who writes `%wap` lines: a line has sub-commands and options, not tools and fields.

A rendered hint names a sub-command with nothing before it: a notebook writes `%wap` there, the `wap` kernel nothing.
"""

from __future__ import annotations

import re

from wap_kernel.dialects.hints import reword_for_person
from wap_kernel.model.errors import WapError

_PAST_THE_END = re.compile(r"^startLine (\d+) is past the end")
_ONE_LINE = "the file has 1 lines."


def reword_error(error: WapError) -> WapError:
    """Return `error` with its message and hint in the words of a line."""
    error.message = _reword(error.message)
    error.hint = None if error.hint is None else _reword(error.hint)
    return error


def _reword(text: str) -> str:
    text = _PAST_THE_END.sub(r"Line \1 is past the end", text)
    if text.endswith(_ONE_LINE):
        return f"{text.removesuffix(_ONE_LINE)}the file has 1 line."
    return reword_for_person(text)
