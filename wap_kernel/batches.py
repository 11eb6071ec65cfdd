"""A batch of operations as people write it: an operations message or a bare list of operations, in JSON or YAML."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from wap_kernel.errors import InvalidArgument

STDIN = "-"
PROTOCOL_VERSION = "1.0"


def load(source: str) -> dict[str, Any]:
    """The message in the file `source`, or on standard input where it is `-`. Its operations are not looked at."""
    try:
        data = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidArgument(f"{source} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{source} is not UTF-8: byte {error.start} is wrong.") from None
    return read(text, "standard input" if source == STDIN else source)


def read(text: str, name: str) -> dict[str, Any]:
    """The message in `text`; `name` is how errors call it."""
    is_json = not name.endswith((".yaml", ".yml")) and text.lstrip().startswith(("{", "["))
    sent = _json(text, name) if is_json else _yaml(text, name)
    if isinstance(sent, list):
        return {"protocolVersion": PROTOCOL_VERSION, "operations": sent}
    if not isinstance(sent, dict) or "operations" not in sent:
        raise InvalidArgument(
            f"{name} is no batch of operations.",
            hint='It should be a list of operations, or {"protocolVersion": "1.0", "operations": [...]}.',
        )
    return sent


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"{name} is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise InvalidArgument(f"{name} is nested too deeply.") from None


def _yaml(text: str, name: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise InvalidArgument(
            f"{name} is not JSON, and YAML cannot be read here.", hint="Write JSON, or `pip install PyYAML`."
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined, misc]  # PyYAML ships no types
        """JSON in other clothes: a date stays text, and an alias, by which a page of text becomes gigabytes, is
        refused."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                event = self.peek_event()
                raise yaml.MarkedYAMLError(problem="an alias is not allowed", problem_mark=event.start_mark)
            return super().compose_node(parent, index)

    try:
        sent = yaml.load(text, Loader)
        json.dumps(sent)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidArgument(f"{name} is not valid YAML: {error.problem or error.context}{place}.") from None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} holds what JSON cannot: {error}.") from None
    if isinstance(sent, dict) and sent.get("protocolVersion") == 1.0:
        sent["protocolVersion"] = PROTOCOL_VERSION  # to YAML, an unquoted 1.0 is a number
    return sent
