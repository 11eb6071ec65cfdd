"""Parse a batch of operations as people write it: an operations message or a list of operations, in JSON or YAML."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from wap_kernel.model.errors import InvalidArgument

STDIN = "-"
PROTOCOL_VERSION = "1.0"
_QUOTE_HINT = 'Put quotes around it: "{{name}}".'


def load_batch(source: str) -> dict[str, Any]:
    """Return the message in the file `source`, or on standard input for `-`; its operations are not checked."""
    try:
        data = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidArgument(f"{source} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{source} is not UTF-8: byte {error.start} is wrong.") from None
    return parse_batch(text, "standard input" if source == STDIN else source)


def parse_batch(text: str, name: str, first_line: int = 1) -> dict[str, Any]:
    """Return the message in `text`; errors call it `name` and count its lines from `first_line`."""
    sent = _parse_json(text, name, first_line) if is_json(text, name) else _parse_yaml(text, name, first_line)
    if isinstance(sent, list):
        return {"protocolVersion": PROTOCOL_VERSION, "operations": sent}
    if not isinstance(sent, dict) or "operations" not in sent:
        raise InvalidArgument(
            f"{name} is no batch of operations.",
            hint='Write a list of operations, or {"protocolVersion": "1.0", "operations": [...]}.',
        )
    return sent


def assign_ids(own_ids: Sequence[str | None]) -> list[str]:
    """Return the id of each operation: its own, or else one made of its number.

    The runner and the code that shows events both use this: a command must never be shown with another's verdict.
    """
    taken = set(own_ids)
    return [own or _make_unique(f"op-{number}", taken) for number, own in enumerate(own_ids, 1)]


def _make_unique(name: str, taken: Collection[str | None]) -> str:
    while name in taken:
        name += "_"
    return name


def is_json(text: str, name: str = "") -> bool:
    return not name.endswith((".yaml", ".yml")) and text.lstrip().startswith(("{", "["))


def compose_yaml(text: str) -> Any:
    """Return PyYAML's nodes, with their positions, of a text that `parse_batch` has accepted."""
    yaml = importlib.import_module("yaml")
    return yaml.compose(text, _make_loader(yaml))


def line_of(mark: Any, text: str) -> int:
    return _line_and_column(text, mark.index)[0]


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    """Return the line and column of `index` as editors count them, at most the end of the last word.

    To YAML some other characters end a line as well, and a text that ends too soon ends after its last line.
    """
    index = min(index, len(text.rstrip()))
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _parse_json(text: str, name: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, column = _line_and_column(text, error.pos)
        hint = _QUOTE_HINT if text[: error.pos + 1].endswith("{{") else None
        line += first_line - 1
        problem = f"{error.msg}, line {line}, column {column}"
        raise InvalidArgument(f"{name} is not valid JSON: {problem}.", hint=hint, line=line) from None
    except (RecursionError, ValueError) as error:  # Python refuses to convert very many digits
        problem = "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON: a number is too long"
        raise InvalidArgument(f"{name} is {problem}.") from None


def _parse_yaml(text: str, name: str, first_line: int) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise InvalidArgument(
            f"{name} is not JSON, and YAML cannot be read here.", hint="Write JSON, or `pip install PyYAML`."
        ) from None
    try:
        sent = yaml.load(text, _make_loader(yaml))
        json.dumps(sent)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(error, text, name, first_line) from None
    except RecursionError:
        raise InvalidArgument(f"{name} is nested too deeply.") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} holds a value that JSON does not have: {error}.") from None
    except (LookupError, AttributeError):  # PyYAML raises these for a tag with a value of another kind
        raise InvalidArgument(f"{name} holds a tag that does not fit its value.", hint="Leave tags out.") from None
    if isinstance(sent, dict) and sent.get("protocolVersion") == 1.0:
        sent["protocolVersion"] = PROTOCOL_VERSION  # to YAML, an unquoted 1.0 is a number
    return sent


def _yaml_error(error: Any, text: str, name: str, first_line: int) -> InvalidArgument:
    mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
    if mark is None:
        return InvalidArgument(f"{name} is not valid YAML: {problem}.")
    line, column = _line_and_column(text, mark.index)
    # To YAML, {{name}} is a mapping with a mapping as its key.
    is_variable = problem == "found unhashable key" and "{{" in text.split("\n")[line - 1]
    hint = _QUOTE_HINT if is_variable else None
    line += first_line - 1
    return InvalidArgument(f"{name} is not valid YAML: {problem}, line {line}, column {column}.", hint=hint, line=line)


def _make_loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
        """A loader of what JSON has: a date stays text, and an alias, which may expand to gigabytes, is refused."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                event = self.peek_event()
                raise yaml.MarkedYAMLError(problem="an alias is not allowed", problem_mark=event.start_mark)
            return super().compose_node(parent, index)

    return Loader
