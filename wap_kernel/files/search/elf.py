"""Read from an ELF executable whether it needs a dynamic loader, and which."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

_PT_INTERP = 3


class _Segment(NamedTuple):
    kind: int
    offset: int
    size: int


def is_static(program: str) -> bool:
    """Return whether `program` is an ELF executable that needs no dynamic loader."""
    segments = _read_segments(program)
    return bool(segments) and all(segment.kind != _PT_INTERP for segment in segments)


def read_loader(program: str) -> str | None:
    """Return the dynamic loader that an ELF executable names, or None."""
    named = next((segment for segment in _read_segments(program) if segment.kind == _PT_INTERP), None)
    if named is None:
        return None
    with open(program, "rb") as file:
        file.seek(named.offset)
        return os.fsdecode(file.read(named.size).rstrip(b"\0"))


def _read_segments(program: str) -> list[_Segment]:
    """Return the program headers of a 64-bit ELF file, none for any other file."""
    with open(program, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return []
        order = "<" if header[5] == 1 else ">"
        (offset,) = struct.unpack_from(order + "Q", header, 32)
        size, number = struct.unpack_from(order + "HH", header, 54)
        file.seek(offset)
        table = file.read(size * number)
    layout = struct.Struct(order + "IIQQQQ")  # kind, flags, offset, two addresses, size in the file
    segments: list[_Segment] = []
    for at in range(0, len(table) - layout.size + 1, size or 1):
        kind, _, start, _, _, length = layout.unpack_from(table, at)
        segments.append(_Segment(kind, start, length))
    return segments
