"""The bodies of requests about a run: a person's decision, and how it is undone."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from wap_kernel.dialects.tool import LARGE, Parameters, invalid
from wap_kernel.model.errors import TooLarge
from wap_kernel.runs.decisions import Decision

R = TypeVar("R", bound="_Request")


class _Request(Parameters):
    @classmethod
    def read(cls: type[R], body: bytes) -> R:
        if len(body) > LARGE:
            raise TooLarge(f"The body is over {LARGE} bytes.", hint="Write less.", limit=LARGE)
        try:
            return cls.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise invalid(error, cls) from None


class Decided(_Request):
    """The body of `POST wap/runs/{runId}/decision`."""

    approval_id: str | None = Field(
        None, min_length=1, max_length=200, description="Of the question, as pendingApproval has it."
    )
    operation_id: str | None = Field(
        None, min_length=1, max_length=200, description="Instead of approvalId: the operation that waits."
    )
    decision: Literal["approved", "denied"]
    reason: str | None = Field(None, max_length=2000, description="For the agent and the audit.")
    remember: bool = Field(False, description="Allow the same from now on, without asking (with approved only).")

    @model_validator(mode="after")
    def _one_question(self) -> Decided:
        if (self.approval_id is None) == (self.operation_id is None):
            raise PydanticCustomError("question", "Name what is decided: either approvalId or operationId.")
        if self.remember and self.decision == "denied":
            raise PydanticCustomError("remember", "Only what was approved can be remembered.")
        return self

    def decided(self) -> Decision:
        return Decision(
            approval_id=self.approval_id,
            operation_id=self.operation_id,
            approved=self.decision == "approved",
            reason=self.reason,
            remember=self.remember,
        )


class Revert(_Request):
    """The body of `POST wap/runs/{runId}/revert`; it may be empty."""

    force: bool = Field(False, description="Also where a later change would be lost.")
