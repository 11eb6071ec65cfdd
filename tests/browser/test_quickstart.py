"""The quickstart in JupyterLab, as `make run` shows it. With WAP_PICTURES=1 its pictures in docs are made anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from scripts.demo import Server
from scripts.notebooks import path_of
from tests.support import lab_page as lab

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
MAKES_PICTURES = os.environ.get("WAP_PICTURES") == "1"


@pytest.fixture(scope="module")
def pictured(request: pytest.FixtureRequest, browser: Browser, shared_server: Server) -> Iterator[BrowserContext]:
    """Logged in, with a window of the size of the pictures if they are made: it compiles JupyterLab's scripts anew."""
    if not MAKES_PICTURES:
        yield request.getfixturevalue("context")
        return
    context = browser.new_context(viewport={"width": 1000, "height": 1280}, device_scale_factor=1.5)
    page = context.new_page()
    lab.log_in(page, shared_server)
    page.close()
    yield context
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_runs_is_approved_and_undone(
    pictured: BrowserContext, server: Server, tmp_path: Path, theme: lab.Theme
) -> None:
    lab.set_theme(server, theme)
    (server.workspace / theme).mkdir()  # in a place of its own, so it has a kernel of its own
    shutil.copy(path_of("quickstart"), server.workspace / theme)
    page = pictured.new_page()
    page.set_default_timeout(lab.LOADING)
    lab.open_notebook(page, server, f"{theme}/quickstart.ipynb")
    lab.run_all(page)
    shown = lab.cell_outputs(page)
    told = "\n".join(shown)
    assert "it started this kernel" in shown[0]
    assert "completed with problems" in shown[2] and "a negative amount was converted" in shown[2]
    assert "awaiting approval" in told and "%wap approve run_" in told
    assert "1 path restored" in told
    assert "Traceback" not in told
    assert not (server.workspace / "wap-quickstart").exists(), "the last cell tidies up"
    heading = page.locator(".jp-Notebook .jp-MarkdownCell", has_text="Change, and see the difference")
    heading.evaluate("element => element.scrollIntoView({block: 'start'})")
    assert page.locator(".jp-RenderedHTMLCommon", has_text="raise ValueError(amount)").last.is_visible()
    folder = IMAGES if MAKES_PICTURES else tmp_path
    lab.screenshot(page, folder / f"quickstart-{theme}.png")
    page.close()
