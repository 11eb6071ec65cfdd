"""The notebooks as `make run` opens them: in a folder below the workspace, with kernels that find their own server."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Page

from scripts.demo import Server
from scripts.notebooks import path_of
from tests.support import lab_page as lab


def _open(page: Page, server: Server, name: str) -> None:
    folder = server.workspace / "notebooks"
    folder.mkdir(exist_ok=True)
    shutil.copy(path_of(name), folder)
    lab.open_notebook(page, server, f"notebooks/{name}.ipynb")


def test_the_agent_is_asked_about_and_undone(page: Page, server: Server) -> None:
    _open(page, server, "agent")
    lab.run_all(page)
    outputs = "\n".join(lab.cell_outputs(page))
    assert "PERMISSION_DENIED" in outputs
    assert "awaiting approval" in outputs
    assert "Done: celsius.py is mended" in outputs
    assert "seeRun: completed" in outputs, "what was asked has been approved"
    assert "restored" in outputs and "not done" not in outputs
    assert not (server.workspace / "wap-agent").exists(), "the last cell tidies up"


def test_a_class_sees_cards_and_no_traceback(page: Page, server: Server) -> None:
    _open(page, server, "classroom")
    lab.run_all(page)
    outputs = "\n".join(lab.cell_outputs(page))
    assert "denied by policy" in outputs
    assert "approve run_" in outputs
    assert "%wap" not in outputs
    assert "Traceback" not in outputs
    assert not (server.workspace / "wap-class").exists(), "the last cell tidies up"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_card_can_be_read_in_both_themes(page: Page, server: Server, theme: lab.Theme) -> None:
    """The text of a card stands out from what is behind it, as the page itself computes both."""
    lab.set_theme(server, theme)
    _open(page, server, "classroom")
    lab.run_cell(page, 1)
    card = lab.code_cells(page).nth(1).locator(".jp-RenderedHTMLCommon").first
    card.wait_for()
    assert card.evaluate(_CONTRAST) > 4.5


_CONTRAST = """element => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const lightness = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = node => {
    const color = numbers(getComputedStyle(node).backgroundColor);
    return color.length === 3 || color[3] > 0 || !node.parentElement ? color : behind(node.parentElement);
  };
  const text = element.querySelector('div div') || element;
  const pair = [numbers(getComputedStyle(text).color), behind(text)].map(lightness).sort((a, b) => b - a);
  return (pair[0] + 0.05) / (pair[1] + 0.05);
}"""
