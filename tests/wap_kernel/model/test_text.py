"""Tests of safe_text: invisible and control characters are escaped wherever text is displayed."""

from __future__ import annotations

import unicodedata

import pytest

from wap_kernel.client.render import units
from wap_kernel.model.text import escape_invisible, escape_one_line

IGNORABLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]
"""The code points that Unicode says are shown as nothing (Default_Ignorable_Code_Point)."""


def test_whatever_is_shown_as_nothing_is_written_out() -> None:
    assert [hex(code) for code in IGNORABLE if escape_invisible(chr(code)) == chr(code)] == []
    assert escape_invisible("\u2800\U0001d159") == "\\u2800\\U0001d159", "which are blank, though not to be ignored"


def test_whatever_obeys_is_written_out() -> None:
    obeying = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    assert [one for one in obeying if escape_one_line(one) == one] == []


@pytest.mark.parametrize("text", ["", "plain", "é漢字 ع", "a\u0301", "\u3000\xa0", "😀", "a\tb\nc"])
def test_what_people_write_stays(text: str) -> None:
    assert escape_invisible(text) == text


def test_there_is_one_rule() -> None:
    assert units.escape_invisible is escape_invisible
