"""Agent Spaces: the operations of a message, and what each means to the engine. Translation only.

Paths follow the protocol's own four rules, which are stricter than what the engine accepts.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from wap_kernel.dialects import structure
from wap_kernel.dialects.tools import INTEGER, LARGE, Parameters, invalid
from wap_kernel.operations import DeleteFile, ModifyFile, Operation, ReadFile, ReplaceText, RunCommand, WriteFile

PROTOCOL_VERSION = "1.0"
MAX_PATH = 255
MAX_COMMAND = 4096
MAX_MESSAGE = 100_000
MAX_CONTENT = 10 * 1024 * 1024
MAX_OPERATIONS = 1_000


def _check_path(path: str) -> str:
    if path.startswith("/"):
        raise PydanticCustomError("path", "Path must be relative")
    if ".." in path:
        raise PydanticCustomError("path", "Path must not contain '..'")
    if "\0" in path:
        raise PydanticCustomError("path", "Path must not contain null bytes")
    if len(path) > MAX_PATH:
        raise PydanticCustomError("path", "Path must not exceed {limit} characters", {"limit": MAX_PATH})
    if not path:
        raise PydanticCustomError("path", "Path must not be empty")
    return path


class _Operation(Parameters):
    type: str
    id: str | None = Field(None, min_length=1, max_length=200)


class _OnPath(_Operation):
    path: str

    @model_validator(mode="after")
    def _path(self) -> _OnPath:
        _check_path(self.path)
        return self


class Message(_Operation):
    type: Literal["message"]
    content: str = Field(max_length=MAX_MESSAGE)

    def engine(self) -> Operation | None:
        return None


Encoding = Literal["utf-8", "base64"]


class CreateFile(_OnPath):
    type: Literal["createFile"]
    content: str
    encoding: Encoding = "utf-8"
    overwrite: bool = False

    @model_validator(mode="after")
    def _content(self) -> CreateFile:
        if len(self.data) > MAX_CONTENT:
            raise PydanticCustomError("content", "Content must not exceed {limit} bytes", {"limit": MAX_CONTENT})
        return self

    @property
    def data(self) -> bytes:
        try:
            return base64.b64decode(self.content, validate=True) if self.encoding == "base64" else self.content.encode()
        except (binascii.Error, UnicodeEncodeError):
            raise PydanticCustomError(
                "content", "Content is not valid {encoding}", {"encoding": self.encoding}
            ) from None

    def engine(self) -> Operation:
        mode: Literal["overwrite", "create"] = "overwrite" if self.overwrite else "create"
        return WriteFile(path=self.path, content=self.data, mode=mode, create_directories=True)


class ReadFileOperation(_OnPath):
    type: Literal["readFile"]
    encoding: Encoding = "utf-8"

    def engine(self) -> Operation:
        return ReadFile(path=self.path, encoding=self.encoding)


class Edit(Parameters):
    old_content: str = Field(min_length=1)
    new_content: str


class EditFile(_OnPath):
    type: Literal["editFile"]
    edits: list[Edit] = Field(min_length=1)

    def engine(self) -> Operation:
        changes = tuple(ReplaceText(old_content=edit.old_content, new_content=edit.new_content) for edit in self.edits)
        return ModifyFile(path=self.path, changes=changes)


class DeleteFileOperation(_OnPath):
    type: Literal["deleteFile"]

    def engine(self) -> Operation:
        return DeleteFile(path=self.path)


class Shell(_Operation):
    type: Literal["shell"]
    command: str = Field(min_length=1, max_length=MAX_COMMAND)
    cwd: str = "."
    timeout: Annotated[int, INTEGER] = Field(30_000, ge=1000, le=3_600_000)
    env: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _folder(self) -> Shell:
        _check_path(self.cwd)
        return self

    def engine(self) -> Operation:
        return RunCommand(command=self.command, cwd=self.cwd, timeout_ms=self.timeout, environment=self.env)


AnyOperation = Annotated[
    Message | CreateFile | ReadFileOperation | EditFile | DeleteFileOperation | Shell, Field(discriminator="type")
]


class OperationsMessage(Parameters):
    protocol_version: Literal["1.0"]
    operations: list[AnyOperation] = Field(max_length=MAX_OPERATIONS)

    def numbered(self) -> list[tuple[str, Operation | None]]:
        """Each operation as the engine has it (None: it does nothing), with its id; one without gets its number."""
        return [(one.id or f"op-{number}", one.engine()) for number, one in enumerate(self.operations, 1)]


def parse_message(body: bytes) -> OperationsMessage:
    """The message, or an InvalidArgument that names the position and the field."""
    if len(body) > LARGE:
        structure.check(body)
    try:
        return OperationsMessage.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise invalid(error, OperationsMessage) from None
