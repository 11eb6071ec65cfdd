"""The parameters of the protocol's methods, as far as this server reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from wap_kernel.dialects.coding_environment.rpc_errors import to_rpc_error
from wap_kernel.dialects.mcp.messages import Request
from wap_kernel.dialects.mcp.protocol import LOG_LEVELS
from wap_kernel.dialects.tool import describe_validation_error

_CALL_FIELDS = ("params", "params.name", "params.arguments")
_CALL_HINT = 'params is an object: {"name": a tool, "arguments": an object}. tools/list has both.'


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel)


class Meta(_Model):
    progress_token: StrictInt | str | None = None


class Params(_Model):
    """Parameters that every method has."""

    meta: Annotated[Meta | None, Field(alias="_meta")] = None


class PageParams(Params):
    cursor: str | None = None


class ClientInfo(_Model):
    name: str


class InitializeParams(Params):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: ClientInfo


class CallToolParams(Params):
    name: str
    arguments: dict[str, Any] | None = None
    input_responses: dict[str, Any] | None = None


class PromptParams(Params):
    name: str
    arguments: dict[str, str] | None = None


class UriParams(Params):
    uri: str


class LevelParams(Params):
    level: Literal[LOG_LEVELS]  # type: ignore[valid-type]  # the table of levels is the list of literals


class CompletionArgument(_Model):
    name: str
    value: str


class CompletionReference(_Model):
    type: str


class CompleteParams(Params):
    ref: CompletionReference
    argument: CompletionArgument


class SubscriptionFilter(_Model):
    resource_subscriptions: list[str] | None = None


class ListenParams(Params):
    notifications: SubscriptionFilter


P = TypeVar("P", bound=Params)


class _Message(BaseModel, Generic[P]):
    """The part of a message that problems are named after: `params.name`."""

    params: P


_MODELS: dict[type[Params], type[_Message[Any]]] = {}


def parse_params(request: Request, kind: type[P]) -> P:
    """Return the parameters of a request; raise RpcError, with a hint, where they do not fit."""
    model = _MODELS.get(kind)
    if model is None:
        model = _MODELS[kind] = _Message[kind]  # type: ignore[valid-type]  # a model for each kind, made once
    sent: Mapping[str, Any] = {} if request.params is None else {"params": request.params}
    try:
        parsed: P = model.model_validate(sent).params
    except ValidationError as error:
        problem = describe_validation_error(error, BaseModel)
        problem.hint = f"Correct the params of {request.method} and send it again; MCP says what they are."
        if request.method == "tools/call" and problem.details["problems"][0]["field"] in _CALL_FIELDS:
            problem.hint = _CALL_HINT
        raise to_rpc_error(request.method, problem) from None
    return parsed


def parse_page(request: Request) -> PageParams:
    """Return the parameters of a listing, which may be absent."""
    return PageParams() if request.params is None else parse_params(request, PageParams)
