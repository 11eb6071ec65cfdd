"""The harness itself: a notebook opens in JupyterLab, runs and can be read; without the token nothing opens."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Browser, Page

from scripts.demo import Server
from tests.support import lab_page as lab


def _put(server: Server, name: str, *sources: str, kernel: str = "python3") -> None:
    cells = [new_markdown_cell("# A notebook"), *(new_code_cell(source) for source in sources)]
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
    nbformat.write(new_notebook(cells=cells, metadata=metadata), server.workspace / name)


def test_every_cell_is_run_and_its_output_read(page: Page, server: Server) -> None:
    _put(server, "all.ipynb", "6 * 7", "print('done')")
    lab.open_notebook(page, server, "all.ipynb")
    lab.run_all(page)
    assert lab.cell_outputs(page) == ["42", "done"]


def test_a_failed_cell_ends_the_wait(page: Page, server: Server) -> None:
    _put(server, "fails.ipynb", "1 / 0", "print('never')")
    lab.open_notebook(page, server, "fails.ipynb")
    lab.run_all(page, stops=True)
    first, second = lab.cell_outputs(page)
    assert "ZeroDivisionError" in first
    assert second == ""


def test_a_cell_is_written_and_run(page: Page, server: Server) -> None:
    _put(server, "one.ipynb", "x = 20")
    lab.open_notebook(page, server, "one.ipynb")
    lab.run_all(page)
    lab.run_cell(page, lab.write_cell(page, "x + 1"))
    assert lab.cell_outputs(page)[-1] == "21"


def test_without_the_token_there_is_only_the_login_form(browser: Browser, server: Server) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{server.url}lab", timeout=lab.LOADING)
    assert "/login" in page.url
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_has_the_theme(page: Page, server: Server, theme: lab.Theme, tmp_path: Path) -> None:
    lab.set_theme(server, theme)
    _put(server, "theme.ipynb", "1")
    lab.open_notebook(page, server, "theme.ipynb")
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str(theme == "light").lower())
    lab.screenshot(page, tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
