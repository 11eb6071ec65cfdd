"""Parse an operations message of Agent Spaces, and translate its operations to those of the engine.

Paths follow the protocol's own four rules, which are stricter than the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from wap_kernel.dialects import body_complexity
from wap_kernel.dialects.tool import INTEGER, LARGE_BODY_BYTES, Parameters, describe_validation_error
from wap_kernel.dialects.wap import parameters
from wap_kernel.model import paths
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import (
    AGENT_SPACES_MAX_COMMAND_CHARACTERS,
    AGENT_SPACES_MAX_CONTENT_BYTES,
    AGENT_SPACES_MAX_ID_CHARACTERS,
    AGENT_SPACES_MAX_MESSAGE_CHARACTERS,
    AGENT_SPACES_MAX_OPERATIONS,
    AGENT_SPACES_MAX_PATH_CHARACTERS,
    MAX_NAME_BYTES,
)
from wap_kernel.model.operations import DeleteFile, Message, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.model.run import BatchOptions, Step
from wap_kernel.runs import batch_text

DIALECT = "agent_spaces"
"""Name of the dialect, as runs store it."""
PROTOCOL_VERSION = "1.0"
MIN_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS = 1, 30_000, 3_600_000
"""Bounds and default of a command's timeout."""


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "Text must be valid Unicode, without half characters") from None
    return text


def _check_path(path: str) -> str:
    if path.startswith("/"):
        raise PydanticCustomError("path", "Path must be relative")
    if ".." in path:
        raise PydanticCustomError("path", "Path must not contain '..'")
    if "\0" in path:
        raise PydanticCustomError("path", "Path must not contain null bytes")
    if len(path) > AGENT_SPACES_MAX_PATH_CHARACTERS:
        raise PydanticCustomError(
            "path", "Path must not exceed {limit} characters", {"limit": AGENT_SPACES_MAX_PATH_CHARACTERS}
        )
    if not path:
        raise PydanticCustomError("path", "Path must not be empty")
    return _check_text(path)


def _check_new_path(path: str) -> str:
    if path.rpartition("/")[2] in ("", "."):
        raise PydanticCustomError("path", "The path names a folder: {path}", {"path": path})
    return path


def _to_engine_path(path: str) -> str:
    """Return the engine's form of a path; the file system refuses names of more than 255 bytes."""
    return "/".join(paths.split_path(path)) or "."


def _has_short_names(path: str) -> bool:
    longest = MAX_NAME_BYTES
    return len(path.encode()) <= longest or all(len(name.encode()) <= longest for name in paths.split_path(path))


Text = Annotated[str, AfterValidator(_check_text)]
Id = Annotated[Text, Field(min_length=1, max_length=AGENT_SPACES_MAX_ID_CHARACTERS)]
Path = Annotated[str, AfterValidator(_check_path)]
NewPath = Annotated[Path, AfterValidator(_check_new_path)]
Encoding = Literal["utf-8", "base64"]


class _Operation(Parameters):
    type: str
    id: Id | None = None

    def engine(self) -> Operation:
        raise NotImplementedError


class MessageOperation(_Operation):
    type: Literal["message"]
    content: Text = Field(max_length=AGENT_SPACES_MAX_MESSAGE_CHARACTERS)

    def engine(self) -> Operation:
        return Message(content=self.content)


class CreateFileOperation(_Operation):
    type: Literal["createFile"]
    path: NewPath
    encoding: Encoding = "utf-8"
    content: Text
    overwrite: bool = False
    expected_hash: parameters.Hash | None = None

    @field_validator("content")
    @classmethod
    def _fits(cls, content: str, info: ValidationInfo) -> str:
        try:
            size = len(parameters.decode_content(content, info.data.get("encoding", "utf-8")))
        except InvalidArgument:
            raise PydanticCustomError("content", "Content is not valid base64") from None
        if size > AGENT_SPACES_MAX_CONTENT_BYTES:
            raise PydanticCustomError(
                "content", "Content must not exceed {limit} bytes", {"limit": AGENT_SPACES_MAX_CONTENT_BYTES}
            )
        return content

    def engine(self) -> Operation:
        return WriteFile(
            path=_to_engine_path(self.path),
            content=parameters.decode_content(self.content, self.encoding),
            mode="overwrite" if self.overwrite else "create",
            create_directories=_has_short_names(
                self.path
            ),  # else folders would be created for a file that cannot exist
            expected_hash=self.expected_hash,
        )


class ReadFileOperation(_Operation):
    type: Literal["readFile"]
    path: Path
    encoding: Encoding = "utf-8"

    def engine(self) -> Operation:
        return ReadFile(path=_to_engine_path(self.path), encoding=self.encoding)


class Edit(Parameters):
    old_content: Text = Field(min_length=1)
    new_content: Text


class EditFileOperation(_Operation):
    type: Literal["editFile"]
    path: Path
    edits: list[Edit] = Field(min_length=1)
    expected_hash: parameters.Hash | None = None

    def engine(self) -> Operation:
        changes = tuple(ReplaceText(old_content=edit.old_content, new_content=edit.new_content) for edit in self.edits)
        return ModifyFile(path=_to_engine_path(self.path), edits=changes, expected_hash=self.expected_hash)


class DeleteFileOperation(_Operation):
    type: Literal["deleteFile"]
    path: Path
    expected_hash: parameters.Hash | None = None

    def engine(self) -> Operation:
        return DeleteFile(path=_to_engine_path(self.path), expected_hash=self.expected_hash)


class ShellOperation(_Operation):
    type: Literal["shell"]
    command: Text = Field(min_length=1, max_length=AGENT_SPACES_MAX_COMMAND_CHARACTERS)
    cwd: Path = "."
    timeout: Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS), INTEGER] = DEFAULT_TIMEOUT_MS
    env: dict[Text, Text] = Field(default_factory=dict)
    isolation: parameters.CommandIsolation = "layer"

    def engine(self) -> Operation:
        return RunCommand(
            command=self.command,
            cwd=_to_engine_path(self.cwd),
            timeout_ms=self.timeout,
            is_timeout_default="timeout" not in self.model_fields_set,
            environment=self.env,
            isolation=self.isolation,
        )


AnyOperation = Annotated[
    MessageOperation
    | CreateFileOperation
    | ReadFileOperation
    | EditFileOperation
    | DeleteFileOperation
    | ShellOperation,
    Field(discriminator="type"),
]


class OperationsMessage(Parameters):
    protocol_version: Literal["1.0"]
    operations: list[AnyOperation] = Field(max_length=AGENT_SPACES_MAX_OPERATIONS)
    atomic: bool = Field(False, description="The first failure undoes everything.")
    dry_run: bool = Field(False, description="Nothing is changed; the events tell what would be.")

    @field_validator("operations")
    @classmethod
    def _ids(cls, sent: list[AnyOperation]) -> list[AnyOperation]:
        first: dict[str, int] = {}
        for position, one in enumerate(sent):
            if one.id is not None and first.setdefault(one.id, position) != position:
                taken = PydanticCustomError("id", "operations.{first} has this id already", {"first": first[one.id]})
                problem = InitErrorDetails(type=taken, loc=(position, one.type, "id"), input=one.id)
                raise ValidationError.from_exception_data(cls.__name__, [problem])
        return sent

    def steps(self) -> list[Step]:
        """Return the steps of the message; an operation without an id gets one made of its number, from 1."""
        known = batch_text.assign_ids([one.id for one in self.operations])
        return [Step(known_id, one.type, one.engine()) for known_id, one in zip(known, self.operations, strict=True)]

    def options(self) -> BatchOptions:
        return BatchOptions(atomic=self.atomic, dry_run=self.dry_run)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Validation(Generic[M]):
    """The result of a `validate_...` function: the checked data, or the error that `parse_...` would raise."""

    success: bool
    data: M | None = None
    error: InvalidArgument | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the form of the protocol's own package, ready for JSON."""
        answer: dict[str, Any] = {"success": self.success}
        if self.data is not None:
            answer["data"] = self.data.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.error is not None:
            answer["error"] = self.error.message
        return answer


def validate(adapter: TypeAdapter[M], sent: object) -> M:
    """Return `sent` (a dict, or JSON as text or bytes) as a checked model; raise InvalidArgument for a bad field."""
    try:
        if isinstance(sent, str):
            sent = sent.encode()
        if not isinstance(sent, bytes | bytearray):
            return adapter.validate_python(sent)
        if len(sent) > LARGE_BODY_BYTES:
            body_complexity.check_complexity(bytes(sent))
        return adapter.validate_json(sent or b"{}")
    except ValidationError as error:
        raise describe_validation_error(error, OperationsMessage) from None
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"The text is not Unicode: half a character at {error.start}.") from None
    except RecursionError:
        raise InvalidArgument("The message is nested too deeply.") from None


def try_parse(parse: Callable[[object], M], sent: object) -> Validation[M]:
    try:
        return Validation(True, data=parse(sent))
    except InvalidArgument as error:
        return Validation(False, error=error)


_OPERATION: TypeAdapter[AnyOperation] = TypeAdapter(AnyOperation)
_MESSAGE: TypeAdapter[OperationsMessage] = TypeAdapter(OperationsMessage)


def parse_operation(sent: object) -> AnyOperation:
    return validate(_OPERATION, sent)


def parse_operations_message(sent: object) -> OperationsMessage:
    return validate(_MESSAGE, sent)


parse_message = parse_operations_message


def validate_operation(sent: object) -> Validation[AnyOperation]:
    """Never raises, whatever is sent."""
    return try_parse(parse_operation, sent)


def validate_operations_message(sent: object) -> Validation[OperationsMessage]:
    """Never raises, whatever is sent."""
    return try_parse(parse_operations_message, sent)
