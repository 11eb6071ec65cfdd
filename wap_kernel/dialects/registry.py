"""Open a Runner that writes Agent Spaces events and encodes the responses of every dialect.

Any process may end the run of a call that waited for approval, so every process knows every dialect. A dialect is
imported when its first such call ends, since that happens in few processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from wap_kernel.dialects.agent_spaces.event_writer import AgentSpacesEventWriter
from wap_kernel.runs.runner import Runner
from wap_kernel.runs.services import ResponseEncoder

if TYPE_CHECKING:
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.errors import WapError
    from wap_kernel.model.results import Result
    from wap_kernel.model.run import Step


@dataclass(frozen=True)
class LazyEncoder:
    """The response encoder of one dialect, whose `module` is imported on first use."""

    module: str
    """Module with the functions `encode_result` and `encode_error`."""

    def encode_result(self, step: Step, result: Result, /) -> dict[str, Any]:
        return self._encoder.encode_result(step, result)

    def encode_error(self, step: Step, error: WapError, /) -> dict[str, Any]:
        return self._encoder.encode_error(step, error)

    @property
    def _encoder(self) -> ResponseEncoder:
        return cast(ResponseEncoder, import_module(self.module))


ENCODERS: Mapping[str, LazyEncoder] = {
    "wap": LazyEncoder("wap_kernel.dialects.wap.tools"),
    "coding_environment": LazyEncoder("wap_kernel.dialects.coding_environment.tool_call"),
    "tool_interface": LazyEncoder("wap_kernel.dialects.tool_interface.tool_call"),
}
"""Response encoders of the dialects that have single calls."""


def open_runner(workspace: Workspace, **options: Any) -> Runner:
    """Return a Runner on `workspace`; `options` are passed on to the Runner."""
    events = AgentSpacesEventWriter(partial(datetime.now, timezone.utc), workspace.redactor)
    return Runner(workspace, **{"events": events, "encoders": ENCODERS, **options})
