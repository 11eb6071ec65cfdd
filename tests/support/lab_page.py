"""JupyterLab as a person sees it: open a notebook, run it, read the page. Nothing sleeps; the page is waited for."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Locator, Page

from scripts.demo import Server

Theme = Literal["light", "dark"]
THEME_PLUGIN = "@jupyterlab/apputils-extension:themes"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
LOADING = 60_000
"""Milliseconds; the first page of a busy machine compiles a lot of JavaScript."""
RUNNING = 120_000
QUIET: dict[str, dict[str, Any]] = {
    # Cells that are out of view stay on the page, so that it can be read as a whole.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}


def _request(server: Server, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"{server.url}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json"},
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
        return json.loads(response.read() or b"null")


def change_settings(server: Server, plugin: str, values: dict[str, Any]) -> None:
    """Store a person's settings as JupyterLab itself does; they hold from the next page on."""
    _request(server, "PUT", f"lab/api/settings/{plugin}", {"raw": json.dumps(values)})


def clear_server(server: Server) -> None:
    """End every kernel, cancel every run that waits for a person, and empty the workspace."""
    for session in _request(server, "GET", "api/sessions"):
        _request(server, "DELETE", f"api/sessions/{session['id']}")
    for run in _request(server, "GET", "wap/runs?status=awaiting_approval")["runs"]:
        _request(server, "POST", f"wap/runs/{run['runId']}/cancel", {})
    for entry in server.workspace.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def set_theme(server: Server, theme: Theme) -> None:
    change_settings(server, THEME_PLUGIN, {"theme": THEMES[theme]})


def log_in(page: Page, server: Server) -> None:
    """Through the form, like a person who was given the token; nothing secret stands in an address afterwards."""
    page.set_default_timeout(LOADING)
    page.goto(f"{server.url}login?next=%2Fapi")
    page.locator("#password_input").fill(server.token)
    page.locator("#login_submit").click()
    page.wait_for_url(f"{server.url}api")


def open_notebook(page: Page, server: Server, path: str) -> None:
    """Open `path` of the workspace, alone in the window, and wait until its kernel can be used."""
    cells = len(json.loads((server.workspace / path).read_text())["cells"])
    page.goto(f"{server.url}doc/tree/{path}?reset")
    page.wait_for_function("cells => document.querySelectorAll('.jp-Notebook .jp-Cell').length >= cells", arg=cells)
    wait_until_idle(page)


def wait_until_idle(page: Page) -> None:
    """Also in the words of the status bar: the indicator of a notebook is idle before it has a kernel."""
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle$")).wait_for()


def choose(page: Page, menu: str, entry: str) -> None:
    page.locator(".lm-MenuBar-itemLabel").get_by_text(menu, exact=True).click()
    page.locator(".lm-Menu-itemLabel").get_by_text(entry, exact=True).click()


def clear(page: Page) -> None:
    """No outputs and no numbers, so that what stands there later is new."""
    choose(page, "Edit", "Clear Outputs of All Cells")
    page.wait_for_function("() => !document.querySelector('.jp-Notebook .jp-OutputArea-child')")


def run_all(page: Page, *, stops: bool = False) -> None:
    """Run every cell, and come back when all have ended; if it `stops`, when one has failed that is not meant to."""
    clear(page)
    choose(page, "Run", "Run All Cells")
    page.wait_for_function(_HAS_STOPPED if stops else _ALL_ENDED, timeout=RUNNING)
    wait_until_idle(page)


def run_cell(page: Page, index: int) -> None:
    """Run one code cell and come back when it has ended."""
    cell = code_cells(page).nth(index)
    prompt = cell.locator(".jp-InputPrompt")
    before = prompt.inner_text()
    cell.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        "([prompt, before]) => prompt.innerText !== before && /\\d/.test(prompt.innerText)",
        arg=[prompt.element_handle(), before],
        timeout=RUNNING,
    )
    wait_until_idle(page)


def write_cell(page: Page, source: str) -> int:
    """Put a new code cell with `source` at the end; answers its position."""
    before = code_cells(page).count()
    code_cells(page).last.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    code_cells(page).nth(before).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function(_IS_WRITTEN_IN, arg=before)
    page.keyboard.insert_text(source)
    code_cells(page).nth(before).get_by_text(source).wait_for()
    return before


def code_cells(page: Page) -> Locator:
    return page.locator(".jp-Notebook .jp-CodeCell")


def cell_outputs(page: Page) -> list[str]:
    """What a person reads below each code cell."""
    cells = code_cells(page)
    read = (cells.nth(n).locator(".jp-OutputArea-output").all_inner_texts() for n in range(cells.count()))
    return ["\n".join(text.strip() for text in texts) for texts in read]


def screenshot(page: Page, path: Path, cells: Locator | None = None) -> None:
    """A picture of the window, or of some cells; the cursor does not blink and nothing moves in it."""
    (page if cells is None else cells).screenshot(path=path, animations="disabled", caret="hide")


_IS_WRITTEN_IN = """number => {
  const cell = document.querySelectorAll('.jp-Notebook .jp-CodeCell')[number];
  return cell.contains(document.activeElement) && document.activeElement.matches('.cm-content');
}"""
_ALL_ENDED = """() => {
  const cells = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')];
  return cells
    .filter(cell => cell.querySelector('.cm-content').innerText.trim())
    .every(cell => /\\d/.test(cell.querySelector('.jp-InputPrompt').innerText));
}"""
# JupyterLab shows an error like text on stderr. What comes after a failed cell loses its star and gets no number.
_HAS_STOPPED = """() => {
  const prompts = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')];
  return document.querySelector('.jp-Notebook [data-mime-type="application/vnd.jupyter.stderr"]')
    && !prompts.some(prompt => prompt.innerText.includes('*'));
}"""
