"""An approval in JupyterLab: the card shows the effect of the command, and hostile names do nothing."""

from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from scripts.demo import Server
from tests.support import lab_page as lab
from tests.support.provider_workspace import skip_unless_works

HOSTILE = "<img src=x onerror=document.title='owned'>\u202egnp"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_person_sees_what_would_be_lost_and_takes_it_back(page: Page, server: Server, theme: lab.Theme) -> None:
    skip_unless_works("bubblewrap")
    lab.set_theme(server, theme)
    (server.workspace / "data").mkdir()
    (server.workspace / "data" / HOSTILE).write_text("old\n")
    sources = ["%load_ext wap_kernel", "%wap sh rm -r data; echo tidy", "%wap approve", "%wap revert last"]
    metadata = {"kernelspec": {"name": "python3", "display_name": "python3"}}
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources], metadata=metadata)
    nbformat.write(notebook, server.workspace / "effect.ipynb")
    lab.open_notebook(page, server, "effect.ipynb")
    for index in range(2):
        lab.run_cell(page, index)
    card = lab.cell_outputs(page)[1]
    assert "It deletes 1 file and 1 folder." in card and "tidy" in card
    assert "data/<img src=x onerror=document.title='owned'>\\u202egnp" in card
    assert (server.workspace / "data" / HOSTILE).exists() and "owned" not in page.title()
    page.locator("summary", has_text="the content of 1 deleted file").click()
    page.get_by_text("-old").wait_for()
    lab.run_cell(page, 2)
    assert not (server.workspace / "data").exists()
    lab.run_cell(page, 3)
    assert (server.workspace / "data" / HOSTILE).read_text() == "old\n"
