"""A JupyterLab server with a token, and a browser that has logged in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from scripts.demo import Server, running_server
from tests.support import lab_page as lab

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with the module, and its event loop with it."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on PATH")
    # Chromium refuses its own sandbox to root. The pages that it opens are ours.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as running:
        for plugin, values in lab.QUIET.items():
            lab.change_settings(running, plugin, values)
        yield running


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """Logged in, as wide as a laptop."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, device_scale_factor=2)
    page = context.new_page()
    lab.log_in(page, server)
    yield page
    context.close()
