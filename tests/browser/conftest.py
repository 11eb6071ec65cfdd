"""A JupyterLab server with a token, and a browser that has logged in: both are started once for this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from scripts.demo import Server, running_server
from tests.support import lab_page as lab

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this folder: until then an event loop runs below the tests, and `asyncio.run` would be refused."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on PATH")
    # No page lives long enough to gain from optimised code.
    arguments = ["--js-flags=--no-opt --no-maglev"]
    if os.geteuid() == 0:  # Chromium refuses its own sandbox to root. The pages that it opens are ours.
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shared_server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """A server with an empty workspace, no kernel, no pending run, and settings that are those of `QUIET` alone."""
    lab.change_settings(shared_server, lab.THEME_PLUGIN, {})
    for plugin, values in lab.QUIET.items():
        lab.change_settings(shared_server, plugin, values)
    yield shared_server
    lab.clear_server(shared_server)


@pytest.fixture(scope="package")
def context(browser: Browser, shared_server: Server) -> Iterator[BrowserContext]:
    """Logged in, as wide as a laptop; JupyterLab's scripts are loaded and compiled once."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    lab.log_in(page, shared_server)
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, server: Server) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(lab.LOADING)
    yield page
    page.close()
