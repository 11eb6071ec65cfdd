"""Colours of a terminal as CSS, and nothing else of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.client.render.blocks import NO_STYLE, Span, Style
from wap_kernel.client.render.writers import ansi
from wap_kernel.client.render.writers.ansi import apply_sgr, collapse_overwrites, style_css, style_lines

RED = (231, 92, 88)


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("31", Style(RED)),
        ("1;31", Style(RED, None, frozenset({"bold"}))),
        ("38;5;1", Style(RED)),
        ("38;5;196", Style((255, 0, 0))),
        ("38;5;244", Style((128, 128, 128))),
        ("38;2;1;2;3", Style((1, 2, 3))),
        ("38:2:1:2:3", Style((1, 2, 3))),
        ("48;5;21", Style(None, (0, 0, 255))),
        ("91", Style((178, 43, 49))),
        ("101", Style(None, (178, 43, 49))),
        ("31;0", NO_STYLE),
        ("31;39", NO_STYLE),
        ("1;2;22", NO_STYLE),
        ("", NO_STYLE),
        ("8", NO_STYLE),  # hidden: it is not
        ("38;2;1", NO_STYLE),
        ("38;9;1;31", NO_STYLE),
        ("99999;31", Style(RED)),
    ],
)
def test_a_sequence_changes_the_style(parameters: str, style: Style) -> None:
    assert apply_sgr(NO_STYLE, parameters) == style


def test_a_style_lasts_until_it_is_changed() -> None:
    red = Style(RED)
    assert list(style_lines(["\x1b[31ma", "b", "c\x1b[0md"])) == [
        (Span("a", style=red),),
        (Span("b", style=red),),
        (Span("c", style=red), Span("d")),
    ]


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_no_colour_hides_a_text(colour: tuple[int, int, int]) -> None:
    found = re.fullmatch("color:#(..)(..)(..)", style_css(Style(colour)))
    assert found is not None
    red, green, blue = (int(part, 16) for part in found.groups())
    level = ansi._luminance((red, green, blue))
    assert 1.05 / (level + 0.05) >= 2.9 and (level + 0.05) / (ansi._luminance((17, 17, 17)) + 0.05) >= 2.9


@given(st.tuples(*[st.integers(0, 255)] * 3), st.tuples(*[st.integers(0, 255)] * 3))
def test_no_background_hides_a_text(foreground: tuple[int, int, int], background: tuple[int, int, int]) -> None:
    rules = style_css(Style(foreground, background))
    level = ansi._luminance(background)
    contrast = 1.05 / (level + 0.05) if "color:#fff" in rules.split(";") else (level + 0.05) / 0.05
    assert contrast >= 4


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("10%\r20%\r100%\n", "100%\n"),
        ("10%\r20%\r", "20%"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\r\r", ""),
        ("plain", "plain"),
    ],
)
def test_a_progress_bar_shows_its_last_state(written: str, seen: str) -> None:
    assert collapse_overwrites(written) == seen


@given(st.lists(st.text(alphabet="\x1b[;:0123456789mKx")))
def test_colours_take_nothing_away(lines: list[str]) -> None:
    for line, found in zip(lines, style_lines(lines), strict=True):
        assert "".join(span.text for span in found) == re.sub(r"\x1b\[[0-9;:]{0,60}m", "", line)
        assert all(re.fullmatch(r"[a-z0-9:;#.\-]*", style_css(span.style)) for span in found)
