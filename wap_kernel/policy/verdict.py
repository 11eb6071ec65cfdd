"""What is said about an operation: allow, ask or deny, with the rule and the reason. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from wap_kernel.model.errors import Code, PathClosed, WapError
from wap_kernel.model.policy import VerdictKind

__all__ = ["VerdictKind", "Verdict"]


@dataclass(frozen=True)
class Verdict:
    kind: VerdictKind
    rule: str
    """Which rule said so, as a person would look for it: `git push`, `unknown`, `maxFileSize`."""
    reason: str
    suggestion: str | None = None
    code: Code = Code.PERMISSION_DENIED
    """What a refusal is reported as."""
    network: bool = False
    """Whether the command gets the network although the policy grants none."""
    closes_path: bool = False
    """Whether the verdict is about a path, and not about the operation itself."""
    grantable: bool = True
    """Whether a person may allow it for good."""

    @classmethod
    def of_refusal(cls, error: WapError, rule: str) -> Verdict:
        """What will be refused in any case, told beforehand; `rule`, where the error names none."""
        rule = str(error.details.get("rule", rule))
        return cls(VerdictKind.DENY, rule, error.message, error.hint, error.code, closes_path=isinstance(error, PathClosed), grantable=False)
