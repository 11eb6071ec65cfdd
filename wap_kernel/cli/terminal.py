"""Write to standard output: in the encoding of the terminal, and with colours where it shows them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from wap_kernel.client.render.blocks import SHELL_PREFIX
from wap_kernel.client.render.writers.palette import NO_COLORS, Palette

if TYPE_CHECKING:
    from wap_kernel.client.results import ClientResult

MAX_BYTES = 1_000_000
"""Bytes of one result; a pager or `--json` is for longer ones."""


def open_palette() -> Palette:
    """Return colours on a terminal, unless `NO_COLOR` or the kind of terminal forbids them."""
    is_forbidden = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return NO_COLORS if is_forbidden or not sys.stdout.isatty() else Palette(is_on=True)


def write(text: str) -> None:
    """Write and flush `text` in the encoding of the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def show(result: ClientResult) -> None:
    """Write a result for a person."""
    from wap_kernel.client.render import text

    write(text(result, prefix=SHELL_PREFIX, largest=MAX_BYTES, palette=open_palette()) + "\n")


def is_interactive() -> bool:
    """Return whether a person sits at both ends and can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
