"""Translate the terminal colours in the output of commands into CSS; other control sequences stay visible text.

Colours are adjusted until they can be read on a light and on a dark page: no text can be hidden by its colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from wap_kernel.client.render.blocks import NO_STYLE, Rgb, Span, Style

_SGR = re.compile(r"\x1b\[([0-9;:]{0,60})m")
_PALETTE: tuple[Rgb, ...] = (
    (62, 66, 77),
    (231, 92, 88),
    (0, 162, 80),
    (221, 182, 43),
    (32, 143, 251),
    (209, 96, 196),
    (96, 198, 200),
    (197, 193, 180),
    (40, 44, 54),
    (178, 43, 49),
    (0, 116, 39),
    (178, 125, 18),
    (0, 101, 202),
    (160, 49, 150),
    (37, 143, 143),
    (161, 166, 178),
)
"""The terminal palette of JupyterLab."""
_DARKEST, _LIGHTEST = 0.12, 0.30
"""Luminance with a contrast of 3 to both of JupyterLab's backgrounds."""
_LINEAR = tuple(math.pow(part / 255, 2.2) for part in range(256))
"""Linear brightness of each value of a colour channel."""
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse"}
_OFF = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}, 27: {"inverse"}}
_RULES = {
    "bold": "font-weight:bold",
    "dim": "opacity:0.7",
    "italic": "font-style:italic",
    "underline": "text-decoration:underline",
}


def collapse_overwrites(text: str) -> str:
    r"""Return `text` as a terminal shows it in the end: of a line overwritten with `\r`, the last state."""
    if "\r" not in text:
        return text
    return "\n".join(_last_state(line) for line in text.split("\n"))


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    return next((state for state in reversed(line.split("\r")) if state), "")


def style_lines(lines: Sequence[str]) -> Iterator[tuple[Span, ...]]:
    """Yield each line as styled spans; a style lasts until the text changes it."""
    style = NO_STYLE
    for line in lines:
        if "\x1b" not in line:
            yield (Span(line, style=style),)
            continue
        spans: list[Span] = []
        end = 0
        for match in _SGR.finditer(line):
            if match.start() > end:
                spans.append(Span(line[end : match.start()], style=style))
            style = apply_sgr(style, match[1])
            end = match.end()
        if end < len(line):
            spans.append(Span(line[end:], style=style))
        yield tuple(spans)


def apply_sgr(style: Style, parameters: str) -> Style:
    """Return `style` after the SGR parameters of an escape sequence."""
    numbers = [int(number or 0) if len(number) < 4 else 999 for number in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            style = NO_STYLE
        elif number in _ON:
            style = style._replace(flags=style.flags | {_ON[number]})
        elif number in _OFF:
            style = style._replace(flags=style.flags - _OFF[number])
        elif number in (38, 48):
            colour = _take_extended_color(numbers)
            style = style._replace(foreground=colour) if number == 38 else style._replace(background=colour)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style = style._replace(foreground=_PALETTE[number - 30 if number < 90 else number - 82])
        elif 40 <= number <= 47 or 100 <= number <= 107:
            style = style._replace(background=_PALETTE[number - 40 if number < 100 else number - 92])
        elif number == 39:
            style = style._replace(foreground=None)
        elif number == 49:
            style = style._replace(background=None)
    return style


def _take_extended_color(numbers: list[int]) -> Rgb | None:
    """Take the numbers of an extended colour, `5;N` or `2;R;G;B`, and return it."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return _indexed_color(min(numbers.pop(0), 255))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(numbers.pop(0), 255) for _ in range(3))
        return red, green, blue
    numbers.clear()
    return None


def _indexed_color(number: int) -> Rgb:
    if number < 16:
        return _PALETTE[number]
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return steps[number // 36], steps[number // 6 % 6], steps[number % 6]


# -- as CSS


@lru_cache(maxsize=512)
def style_css(style: Style) -> str:
    if style == NO_STYLE:
        return ""
    foreground, background = style.foreground, style.background
    if "inverse" in style.flags:
        foreground, background = background, foreground or (128, 128, 128)
    rules = []
    if background is not None:
        dark = _luminance(background) < 0.18
        rules += [f"background-color:{_hex(background)}", f"color:{'#fff' if dark else '#000'}"]
    elif foreground is not None:
        rules.append(f"color:{_hex(_make_readable(foreground))}")
    rules += [rule for name, rule in _RULES.items() if name in style.flags]
    return ";".join(rules)


def _make_readable(colour: Rgb) -> Rgb:
    """Return the colour mixed with as much white or black as makes it readable."""
    level = _luminance(colour)
    if _DARKEST <= level <= _LIGHTEST:
        return colour
    goal = 255 if level < _DARKEST else 0
    for share in range(1, 20):
        mixed = _mix(colour, goal, share / 20)
        if _DARKEST <= _luminance(mixed) <= _LIGHTEST:
            return mixed
    return 118, 118, 118


def _mix(colour: Rgb, goal: int, share: float) -> Rgb:
    red, green, blue = (round(part + (goal - part) * share) for part in colour)
    return red, green, blue


def _luminance(colour: Rgb) -> float:
    red, green, blue = colour
    return 0.2126 * _LINEAR[red] + 0.7152 * _LINEAR[green] + 0.0722 * _LINEAR[blue]


def _hex(colour: Rgb) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
