"""Buttons below the card of an approval, where ipywidgets is installed and a person sits at the front end.

Elsewhere a person types the lines on the card. A button executes such a line, which names the approval by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_WIDGETS = "ipywidgets"


def show_buttons(shell: InteractiveShell, pending: Mapping[str, Any], decide: Callable[[str], object]) -> None:
    """Display the buttons of an approval; `decide` executes the line of the one that is pressed."""
    if not _has_buttons(shell):
        return
    widgets = import_module(_WIDGETS)
    approval = str(pending["approvalId"])
    lines = [("Approve", f"approve {approval}", "success"), ("Deny", f"deny {approval}", "danger")]
    if pending.get("remember"):
        lines.insert(1, ("Always", f"approve {approval} --always", ""))
    buttons = [widgets.Button(description=label, button_style=style) for label, _, style in lines]
    box, display_id = widgets.HBox(buttons), uuid4().hex

    def press(line: str) -> None:
        box.close()
        _publish(shell, {"text/plain": ""}, display_id, update=True)
        decide(line)

    for button, (_, line, _) in zip(buttons, lines, strict=True):
        button.on_click(lambda _, line=line: press(line))
    # A front end without widgets, and a saved notebook, show the empty text.
    view = box._repr_mimebundle_()["application/vnd.jupyter.widget-view+json"]
    bundle = {"text/plain": "", "application/vnd.jupyter.widget-view+json": view}
    _publish(shell, bundle, display_id, update=False)


def _has_buttons(shell: InteractiveShell) -> bool:
    """Return whether a person can press buttons: a program that runs notebooks does not answer input requests."""
    kernel = getattr(shell, "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False)) and find_spec(_WIDGETS) is not None


def _publish(shell: InteractiveShell, bundle: dict[str, Any], display_id: str, *, update: bool) -> None:
    shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)
