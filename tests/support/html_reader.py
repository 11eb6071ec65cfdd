"""How a strict reader sees a bundle: which elements and styles the HTML has, and what its text says."""

from __future__ import annotations

import json
import unicodedata
from html.parser import HTMLParser

import nbformat

TAGS = frozenset("b bdo code details div mark pre span summary table tbody td th thead tr".split())
PROPERTIES = frozenset(
    """background-color border border-bottom border-collapse border-left-color border-left-width border-radius color
    cursor display font-size font-style font-weight height line-height margin margin-bottom margin-left min-width
    opacity overflow overflow-wrap overflow-x padding padding-right table-layout text-align text-decoration
    vertical-align white-space width word-break""".split()
)
LIMIT = 100_000


class Page(HTMLParser):
    """Refuses whatever is not ours."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.marked: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert (name == "dir" and value == "ltr") or name == "style", (tag, name)
            for rule in (value or "").split(";") if name == "style" else ():
                assert rule.partition(":")[0] in PROPERTIES, rule
                assert not {"url", "expression", "\\", "<", "&"} & set(rule.replace("(", " ").split()), rule
        self._open.append(tag)
        if tag == "mark":
            self.marked.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "mark" in self._open:
            self.marked[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def is_shown(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def check(bundle: dict[str, str]) -> Page:
    """The laws of every bundle: ours and nothing else, everything visible, small."""
    assert set(bundle) == {"text/plain", "text/html"}
    plain, rich = bundle["text/plain"], bundle["text/html"]
    for written in (plain, rich):
        assert all(map(is_shown, set(written))), sorted(one for one in set(written) if not is_shown(one))
    assert not any(line != line.rstrip() for line in plain.split("\n"))
    assert size(bundle) <= LIMIT
    return Page(rich)


def size(bundle: dict[str, str]) -> int:
    """What the output takes in a saved notebook."""
    output = nbformat.v4.new_output("display_data", bundle)
    cell = nbformat.v4.new_code_cell("", id="a", outputs=[output])
    empty = nbformat.v4.new_code_cell("", id="a", outputs=[nbformat.v4.new_output("display_data", {})])
    return _saved(cell) - _saved(empty)


def _saved(cell: nbformat.NotebookNode) -> int:
    written = nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))
    assert json.loads(written)
    return len(written.encode())
