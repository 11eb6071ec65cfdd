"""What each dialect answers to its single calls. Any process may end the run of a call that waited for a person, so
each knows every dialect; one is imported when the first such call of it ends, since few processes come to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from wap_kernel.model.errors import WapError
    from wap_kernel.model.results import Result
    from wap_kernel.model.run import Step


class Answers(Protocol):
    """A dialect's own answers to its single calls. One that waited for a person has its answer kept with its run."""

    def respond(self, step: Step, result: Result, /) -> dict[str, Any]: ...
    def refuse(self, step: Step, error: WapError, /) -> dict[str, Any]:
        """What it says of a call that failed, or that was not performed."""


@dataclass(frozen=True)
class _Dialect:
    module: str

    def respond(self, step: Step, result: Result, /) -> dict[str, Any]:
        return self._answers.respond(step, result)

    def refuse(self, step: Step, error: WapError, /) -> dict[str, Any]:
        return self._answers.refuse(step, error)

    @property
    def _answers(self) -> Answers:
        return import_module(self.module)


ANSWERS: Mapping[str, Answers] = {
    "wap": _Dialect("wap_kernel.dialects.wap.tools"),
    "coding_environment": _Dialect("wap_kernel.dialects.coding_environment.call"),
    "tool_interface": _Dialect("wap_kernel.dialects.tool_interface.call"),
}
"""By dialect; others have no single calls."""
