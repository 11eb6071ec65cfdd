"""Verdict: allow, ask or deny, with the rule and the reason. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.model.errors import Code, PathClosed, WapError
from wap_kernel.model.policy import VerdictKind

__all__ = ["Verdict", "VerdictKind"]


@dataclass(frozen=True)
class Verdict:
    """The decision on an operation, or on one part of it."""

    kind: VerdictKind
    rule: str
    """The rule behind the verdict, as a person would look for it: `git push`, `unknown`, `maxFileSize`."""
    reason: str
    suggestion: str | None = None
    code: Code = Code.PERMISSION_DENIED
    """The error code of a refusal."""
    network: bool = False
    """True where the command gets the network although the policy grants none."""
    closes_path: bool = False
    """True where the verdict is about a path, and not about the operation itself."""
    grantable: bool = True
    """True where a person may allow the operation for good."""
    destructive: bool = False
    """True where the command destroys data, so that a person reads this reason before others."""
    previewable: bool = False
    """True where only the words of a command ask, so that it may run on a Layer before a person decides."""

    @classmethod
    def from_error(cls, error: WapError, rule: str) -> Verdict:
        """Return the verdict that an operation which fails with `error` gets before it is tried.

        `rule` is the rule where the error names none.
        """
        rule = str(error.details.get("rule", rule))
        is_path = isinstance(error, PathClosed)
        return cls(VerdictKind.DENY, rule, error.message, error.hint, error.code, closes_path=is_path, grantable=False)
