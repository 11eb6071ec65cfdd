"""wap: files, commands and git for agents, inside Jupyter. The engine, which imports nothing of the Jupyter server.

Import names from their modules, e.g. `from wap_kernel.model.errors import WapError`; this module stays light. It also
exports `connect` and the validators of Agent Spaces messages, which are loaded on first use. In IPython,
`%load_ext wap_kernel` adds `%wap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wap_kernel.model.package import __version__

__all__ = [
    "Validation",
    "__version__",
    "connect",
    "parse_event",
    "parse_events_message",
    "parse_operation",
    "parse_operations_message",
    "validate_event",
    "validate_events_message",
    "validate_operation",
    "validate_operations_message",
]

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wap_kernel.client.workspace_client import connect
    from wap_kernel.dialects.agent_spaces.event_models import (
        parse_event,
        parse_events_message,
        validate_event,
        validate_events_message,
    )
    from wap_kernel.dialects.agent_spaces.operations import (
        Validation,
        parse_operation,
        parse_operations_message,
        validate_operation,
        validate_operations_message,
    )
else:  # a type checker would believe that the module has every name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if name == "connect":
            home = "client.workspace_client"
        else:
            home = "dialects.agent_spaces.event_models" if "_event" in name else "dialects.agent_spaces.operations"
        return getattr(import_module(f"wap_kernel.{home}"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add `%wap` to the shell, for `%load_ext wap_kernel`."""
    from wap_kernel.notebook.magics.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    from wap_kernel.notebook.magics.magics import unload

    unload(shell)
