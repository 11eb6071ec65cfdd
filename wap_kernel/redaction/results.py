"""Redact results and errors before they leave the engine.

The output of commands and of git is redacted, and so are audit records, approvals and run events where they are
written. The content of a file that a tool reads is not redacted, since an edit must find the text that was read. A file
that holds a credential of this server is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from wap_kernel.model.errors import PermissionDenied, TimedOut, WapError
from wap_kernel.model.git.results import GitResult
from wap_kernel.model.hints import Hint, tell_user
from wap_kernel.model.results import (
    CUT_MARK,
    CommandResult,
    FileContent,
    ModifyResult,
    NotebookContent,
    Result,
    SearchMatch,
    SearchResult,
)
from wap_kernel.redaction.known_secrets import MASK, NO_SECRETS, KnownSecrets
from wap_kernel.redaction.redactor import Redactor
from wap_kernel.redaction.truncation import SHORTEST_PART, TRUNCATION_MARK, has_partial_secret, mask_partial_secrets

Redact = Callable[[str], str]
PATTERN_REDACTOR = Redactor()
"""The redactor that knows no secret, only the patterns of secrets."""
SHORTEST_WITHHELD = 16
"""Characters of the shortest secret because of which a file is refused: a shorter one may be an ordinary word."""


class CurrentRedactor:
    """A redactor for the credentials that the server holds at the moment.

    `secrets` and `fragments` (see `KnownSecrets`) are called each time and must not block: the audit calls them too.
    """

    def __init__(
        self, secrets: Callable[[], tuple[str, ...]], fragments: Callable[[], tuple[str, ...]] = lambda: ()
    ) -> None:
        self._secrets = secrets
        self._fragments = fragments
        self._last = _Known((), ())

    def __call__(self, text: str) -> str:
        return self.now()(text)

    def now(self) -> Redactor:
        return self._current().redactor

    @property
    def has_no_secrets(self) -> bool:
        return self._current().long is NO_SECRETS

    def mask_known(self, text: str) -> str:
        """Mask the server's own credentials in `text`; text that only looks like one stays."""
        return self._current().long.mask(text)

    def line(self, text: str) -> str:
        """Mask the server's own credentials in a line of a search result, which may have been truncated."""
        known = self._current().long
        if known is not NO_SECRETS and text.endswith(CUT_MARK):
            body = text.removesuffix(CUT_MARK)
            if len(body) - (end := known.open_end(body)) >= SHORTEST_PART:
                text = f"{body[:end]}{MASK}"
        if known is not NO_SECRETS and text.startswith(CUT_MARK):
            body = text.removeprefix(CUT_MARK)
            if (start := known.open_start(body)) >= SHORTEST_PART:
                text = f"{MASK}{body[start:]}"
        return known.mask(text)

    def withholds(self, text: str, *, is_cut: bool = False) -> bool:
        """Return whether `text` holds a credential of the server, in any form, or a part of one where it was cut."""
        known = self._current().long
        if known is NO_SECRETS:
            return False
        return known.mask(text) != text or (is_cut and has_partial_secret(text, known))

    def _current(self) -> _Known:
        secrets, fragments = self._secrets(), self._fragments()
        if (self._last.secrets, self._last.fragments) != (secrets, fragments):
            self._last = _Known(secrets, fragments)
        return self._last


class _Known:
    def __init__(self, secrets: tuple[str, ...], fragments: tuple[str, ...]) -> None:
        self.secrets = secrets
        self.fragments = fragments
        self.redactor = Redactor(secrets, fragments) if secrets else PATTERN_REDACTOR
        long = tuple(secret for secret in secrets if len(secret) >= SHORTEST_WITHHELD)
        self.long = NO_SECRETS
        """The secrets that are too long to be ordinary words."""
        if long:
            self.long = self.redactor.known if long == secrets else KnownSecrets(long, fragments)


def redact_value(value: Any, redact: Redact = PATTERN_REDACTOR) -> Any:
    """Return a copy of `value` with all its strings redacted."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact(value)
    if isinstance(value, Mapping):
        return {name: redact_value(each, redact) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(redact_value(each, redact) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: redact_value(getattr(value, field.name), redact) for field in fields(value)}
        return replace(value, **named)
    return value


def redact_result(found: Result, current: CurrentRedactor) -> Result:
    redact = current.now()
    if isinstance(found, GitResult):
        return GitResult(answer=redact_value(found.answer, redact), failure=redact_value(found.failure, redact))
    if isinstance(found, CommandResult):
        streams = {"stdout": found.stdout, "stderr": found.stderr}
        if found.is_output_truncated:
            streams = {name: mask_partial_secrets(text, redact.known) for name, text in streams.items()}
        return found.model_copy(update={name: redact(text) for name, text in streams.items()})
    return found if current.has_no_secrets else _redact_file_result(found, current)


def _redact_file_result(found: Result, current: CurrentRedactor) -> Result:
    """Refuse a content that holds a credential; mask it in diffs, names and the lines of a search.

    A content is never masked silently: it must be exactly what the file holds.
    """
    redact = current.mask_known
    if isinstance(found, FileContent | NotebookContent):
        if any(current.withholds(text, is_cut=is_cut) for text, is_cut in _iterate_texts(found)):
            raise _build_credential_error()
        metadata = found.metadata.model_copy(update={"path": redact(found.metadata.path)})
        return found.model_copy(update={"metadata": metadata})
    if isinstance(found, SearchResult):
        return found.model_copy(update={"matches": [_redact_match(match, current.line) for match in found.matches]})
    if isinstance(found, ModifyResult):
        return found.model_copy(update={"path": redact(found.path), "diff": redact(found.diff)})
    dumped = found.model_dump()
    clean = redact_value(dumped, redact)
    return found if clean == dumped else type(found).model_validate(clean)


def _iterate_texts(found: FileContent | NotebookContent) -> Iterator[tuple[str, bool]]:
    """Yield each text of the content, not encoded as JSON, and whether it was truncated."""
    if isinstance(found, FileContent):
        yield (f"{found.content}{TRUNCATION_MARK}", True) if found.is_truncated else (found.content, False)
        return
    for cell in found.cells:
        yield cell.source, False
        yield from ((output.text, bool(output.is_truncated)) for output in cell.outputs or ())


def _build_credential_error() -> PermissionDenied:
    return PermissionDenied(
        "The file holds a credential of this server, so it is not shown.",
        hint=tell_user("The credential does not belong into the workspace, and should be replaced by another."),
        rule="credential",
    )


def _redact_match(match: SearchMatch, redact: Redact) -> SearchMatch:
    before, after = ([redact(line) for line in lines] for lines in (match.context_before, match.context_after))
    texts = {"match_text": redact(match.match_text), "context_before": before, "context_after": after}
    return match.model_copy(update={**texts, "path": redact(match.path)})


def redact_error(found: WapError, redact: Redact) -> WapError:
    """Redact the texts of the error in place and return it."""
    found.message = redact(found.message)
    found.args = (found.message,)
    if found.hint is not None and not isinstance(found.hint, Hint):  # a hint with a key quotes nothing of the caller's
        found.hint = redact(found.hint)
    found.details = redact_value(found.details, redact)
    return found


def redact_outgoing(found: WapError) -> WapError:
    """Redact an error that leaves the server by patterns alone, also one of a request that became no operation.

    The output that a timeout carries was redacted where the command ran, and is long.
    """
    return found if isinstance(found, TimedOut) else redact_error(found, PATTERN_REDACTOR)
