"""Write blocks as HTML for JupyterLab, light or dark, and escape all of their text.

Styles stand in the elements: JupyterLab removes <style> from notebooks that are not trusted, and with it every
declaration whose value is a variable. So each colour is declared twice, first as one that reads on both themes. Without
any style (GitHub) the order remains: rows are divisions, text is preformatted, folds are <details>.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import groupby

from wap_kernel.client.render import units
from wap_kernel.client.render.blocks import (
    NO_STYLE,
    Bar,
    Block,
    Fields,
    Fold,
    Header,
    LineTone,
    Pre,
    Row,
    Span,
    SpanKind,
    Table,
    TextLine,
    Tone,
)
from wap_kernel.client.render.writers import ansi

_LINE = "rgba(128, 128, 128, 0.3)"
_SHADE = "background-color:rgba(128, 128, 128, 0.08)"


def _color(variable: str, otherwise: str, property_: str = "color") -> str:
    return f"{property_}:{otherwise};{property_}:var(--jp-{variable},{otherwise})"


_TONES: dict[Tone, tuple[str, str, str]] = {
    "ok": ("✓", "success-color1", "#388e3c"),
    "failed": ("✗", "error-color1", "#d9403a"),
    "denied": ("⊘", "error-color1", "#d9403a"),
    "asks": ("?", "warn-color1", "#d9770a"),
    "busy": ("●", "brand-color1", "#1e88e5"),
    "plain": ("-", "border-color1", "#999999"),
}
"""The sign of each tone, its colour variable in JupyterLab, and a fallback colour."""
_KINDS: dict[SpanKind, tuple[str, str]] = {
    "": ("span", ""),
    "code": ("code", "background-color:transparent;padding:0;font-size:12px;word-break:break-word"),
    "type": ("code", "background-color:rgba(128, 128, 128, 0.15);padding:1px 6px;border-radius:3px;font-size:12px"),
    "strong": ("b", ""),
    "muted": ("span", "opacity:0.7"),
    "mark": ("mark", "background-color:rgba(255, 193, 7, 0.45);color:inherit;border-radius:2px"),
}
_LINE_TONES: dict[LineTone, str] = {
    "": "",
    "added": "background-color:rgba(46, 160, 67, 0.16)",
    "removed": "background-color:rgba(248, 81, 73, 0.16)",
    "hunk": "opacity:0.6",
    "muted": "opacity:0.6",
}

_CARD = (
    f"border:1px solid {_LINE};border-radius:4px;margin:2px 0;padding:0 0 4px 0;overflow:hidden;"
    "font-size:13px;line-height:1.5;text-align:left"
)
_HEAD = f"padding:4px 10px;margin-bottom:3px;{_SHADE}"
_ROW = "padding:1px 10px;overflow-wrap:break-word"
_PRE = (
    f"margin:3px 10px 4px 10px;padding:4px 8px;border-radius:3px;{_SHADE};font-size:12px;line-height:1.45;"
    "white-space:pre;overflow-x:auto"
)
_INNER = "margin:0;padding:0;background-color:transparent;font-size:12px;line-height:1.45;white-space:pre"
_WRAPPED = "white-space:pre-wrap;word-break:break-word"
_FACTS = "opacity:0.7;white-space:nowrap"
_GAP = '<span style="padding-right:8px"></span>'
_SUMMARY = "padding:1px 10px;cursor:pointer;opacity:0.8"
_TABLE = "margin:2px 10px;border-collapse:collapse;font-size:12px;table-layout:auto"
_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0;background-color:transparent"


def write(blocks: Iterable[Block]) -> str:
    blocks = list(blocks)
    tone: Tone = next((block.tone for block in blocks if isinstance(block, Header)), "plain")
    edge = _color(_TONES[tone][1], _TONES[tone][2], "border-left-color")
    return _tag("div", f"{_CARD};border-left-width:3px;{edge}", "".join(map(_block, blocks)))


def _block(block: Block) -> str:
    if isinstance(block, Header):
        return _head(block)
    if isinstance(block, Row):
        return _row(block)
    if isinstance(block, Pre):
        return _pre(block)
    if isinstance(block, Fold):
        inner = "".join(map(_block, block.blocks))
        return _tag("details", "", _tag("summary", _SUMMARY, _escape(block.label)) + inner)
    if isinstance(block, Table):
        return _table(block)
    return _fields(block) if isinstance(block, Fields) else _bar(block)


def _head(head: Header) -> str:
    parts = [_outcome(head.tone, head.word, bold=True) if head.word else "", _inline(head.spans)]
    facts = units.join_facts(head.facts)
    parts += [_tag("span", _FACTS, _escape(facts))] if facts else []
    parts += [_tag("code", f"{_KINDS['code'][1]};{_FACTS}", _escape(head.name))] if head.name else []
    return _tag("div", _HEAD, f"{_GAP} ".join(part for part in parts if part))


def _row(row: Row) -> str:
    # The gap is not part of the facts: they may wrap to a line of their own.
    facts = f"{_GAP} {_tag('span', _FACTS, _escape(units.join_facts(row.facts)))}" if row.facts else ""
    body = _inline(row.spans) + facts
    if row.tone is None:
        return _tag("div", _ROW, body)
    return _tag("div", f"{_ROW};display:flex", f"{_outcome(row.tone, row.word)} {_tag('span', '', body)}")


def _outcome(tone: Tone, word: str, *, bold: bool = False) -> str:
    """Return a sign and a word, which make the colour unnecessary."""
    sign, variable, otherwise = _TONES[tone]
    style = "opacity:0.7" if tone == "plain" else _color(variable, otherwise)
    style += ";font-weight:bold" if bold else ";min-width:5.4em;white-space:nowrap"
    return _tag("span", style, _escape(f"{sign} {word}"))


def _inline(spans: Sequence[Span], more: str = "") -> str:
    return "".join(_span(span, more) for span in spans)


def _span(span: Span, more: str) -> str:
    tag, style = _KINDS[span.kind]
    text = _escape(span.text)
    if tag == "code":
        return f'<code dir="ltr" style="{style}{more}">{_force_order(text)}</code>'
    return _tag(tag, style, text) if style or tag != "span" else text


def _pre(pre: Pre) -> str:
    """Write preformatted lines; a command wraps, so that the person who approves it sees all of it."""
    is_command = pre.bar == "$"
    body = "".join(
        _tone_group(tone, list(lines), is_whole=is_command)
        for tone, lines in groupby(pre.lines, key=lambda line: line.tone)
    )
    if is_command:
        return _tag("pre", f"{_PRE};{_WRAPPED}", _protect_newline(_force_order(body)))
    label = _tag("div", f"{_ROW};opacity:0.7", "stderr") if pre.bar == "!" else ""
    if not pre.gutter:
        return label + _tag("pre", _PRE, _protect_newline(body))
    width = max(map(len, pre.gutter))
    numbers = "\n".join(f"{number:>{width}}" for number in map(units.escape_one_line, pre.gutter))
    gutter = _tag("pre", f"{_INNER};opacity:0.5;padding-right:12px", _protect_newline(html.escape(numbers)))
    return _tag(
        "div", f"{_PRE};display:flex", gutter + _tag("pre", f"{_INNER};overflow-x:auto", _protect_newline(body))
    )


def _force_order(text: str) -> str:
    """Force the order of characters: right-to-left letters would exchange the arguments of a command."""
    return text if text.isascii() else f'<bdo dir="ltr">{text}</bdo>'


def _protect_newline(body: str) -> str:
    """Double a newline at the start, because a browser drops one right after <pre>."""
    return f"\n{body}" if body.startswith("\n") else body


def _tone_group(tone: LineTone, lines: Sequence[TextLine], *, is_whole: bool) -> str:
    """Write lines of one tone, each with a newline: a browser does not show the last newline of a block."""
    style = _LINE_TONES[tone]
    text = "".join("".join(_styled(span, is_whole) for span in line.spans) + "\n" for line in lines)
    return _tag("span", f"display:block;{style}", text) if style else text


def _styled(span: Span, is_whole: bool) -> str:
    text = html.escape(units.escape_invisible(span.text if is_whole else units.truncate_line(span.text), "\t"))
    if span.style != NO_STYLE and text:
        return _tag("span", ansi.style_css(span.style), text)
    tag, style = _KINDS[span.kind]
    return _tag(tag, style, text) if span.kind else text


def _table(table: Table) -> str:
    head = "".join(_tag("th", f"{_CELL};opacity:0.7;font-weight:normal", _escape(name)) for name in table.headers)
    wraps = [";white-space:normal" if at == table.wide else ";white-space:nowrap" for at in range(len(table.headers))]
    rows = (
        "".join(_tag("td", _CELL + wrap, _inline(cell, wrap)) for wrap, cell in zip(wraps, row, strict=True))
        for row in table.rows
    )
    whole = _tag("thead", f"border-bottom:1px solid {_LINE}", _tag("tr", "", head)) + _tag(
        "tbody", "", "".join(_tag("tr", "", row) for row in rows)
    )
    return _tag("div", "overflow-x:auto", _tag("table", _TABLE, whole))


def _fields(fields: Fields) -> str:
    named, valued = f"{_CELL};opacity:0.7;white-space:nowrap", f"{_CELL};white-space:normal"
    rows = "".join(
        _tag(
            "tr", "background-color:transparent", _tag("td", named, _escape(name)) + _tag("td", valued, _inline(spans))
        )
        for name, spans in fields.rows
    )
    return _tag("table", _TABLE, _tag("tbody", "", rows))


def _bar(bar: Bar) -> str:
    """Write the finished part of a progress bar, and the current operation in a paler colour."""
    total = max(bar.total, 1)
    fill = f"height:4px;{_color('brand-color1', '#1e88e5', 'background-color')}"
    inner = _tag("div", f"{fill};width:{100 * bar.done // total}%", "")
    inner += _tag("div", f"{fill};width:{100 // total}%;opacity:0.4", "") if bar.done < bar.total else ""
    track = "margin:4px 10px;height:4px;border-radius:2px;overflow:hidden;background-color:rgba(128, 128, 128, 0.25)"
    return _tag("div", f"{track};display:flex", inner)


def _tag(name: str, style: str, inner: str) -> str:
    return f'<{name} style="{style}">{inner}</{name}>' if style else f"<{name}>{inner}</{name}>"


def _escape(text: str) -> str:
    return html.escape(units.escape_one_line(text))
