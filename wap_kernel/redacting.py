"""The rim: what leaves the engine as an answer or an error goes through here and leaves without credentials.

Contents of files are left as they are where a tool reads them: an edit must find what was shown. What commands print
and what git says is redacted, and so are the records of the audit, the questions to people and the events of runs,
where they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from wap_kernel.errors import TimedOut, WapError
from wap_kernel.git.acting import GitActed
from wap_kernel.git.redaction import Redactor
from wap_kernel.open_ends import without_cut_ones
from wap_kernel.results import CommandResult, Result

Redact = Callable[[str], str]
SHAPES = Redactor()
"""Knows no secret, only what secrets look like."""


class CurrentRedactor:
    """Knows the credentials that the server holds at the moment. `secrets` is asked each time and must not wait for
    anything: the writing of the audit asks too."""

    def __init__(self, secrets: Callable[[], tuple[str, ...]]) -> None:
        self._secrets = secrets
        self._last: tuple[tuple[str, ...], Redactor] = ((), SHAPES)

    def __call__(self, text: str) -> str:
        return self.now()(text)

    def now(self) -> Redactor:
        secrets = self._secrets()
        if not secrets:
            return SHAPES
        known_for, redactor = self._last
        if known_for != secrets:
            redactor = Redactor(secrets)
            self._last = (secrets, redactor)
        return redactor


def redacted(value: Any, redact: Redact = SHAPES) -> Any:
    """The same value, with all its texts redacted."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact(value)
    if isinstance(value, Mapping):
        return {name: redacted(each, redact) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(redacted(each, redact) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: redacted(getattr(value, field.name), redact) for field in fields(value)}
        return replace(value, **named)
    return value


def result(found: Result, redact: Redactor) -> Result:
    if isinstance(found, GitActed):
        return GitActed(answer=redacted(found.answer, redact), failure=redacted(found.failure, redact))
    if isinstance(found, CommandResult):
        streams = {"stdout": found.stdout, "stderr": found.stderr}
        if found.is_output_truncated:
            streams = {name: without_cut_ones(text, redact.known) for name, text in streams.items()}
        return found.model_copy(update={name: redact(text) for name, text in streams.items()})
    return found


def error(found: WapError, redact: Redact) -> WapError:
    """The same error: whoever raised it has no more use for it."""
    found.message = redact(found.message)
    found.args = (found.message,)
    found.hint = None if found.hint is None else redact(found.hint)
    found.details = redacted(found.details, redact)
    return found


def told(found: WapError) -> WapError:
    """On its way out: also what was wrong with a request, of which no operation has come. The output that a timeout
    carries was redacted where it was made, and is long."""
    return found if isinstance(found, TimedOut) else error(found, SHAPES)
