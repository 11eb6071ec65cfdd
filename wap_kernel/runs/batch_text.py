"""A batch of operations as people write it: an operations message or a bare list of operations, in JSON or YAML."""

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
_QUOTES = 'Put quotes around it: "{{name}}".'


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


def read(text: str, name: str, first_line: int = 1) -> dict[str, Any]:
    """The message in `text`; `name` is how errors call it, and `first_line` what they count its lines from."""
    sent = _json(text, name, first_line) if is_json(text, name) else _yaml(text, name, first_line)
    if isinstance(sent, list):
        return {"protocolVersion": PROTOCOL_VERSION, "operations": sent}
    if not isinstance(sent, dict) or "operations" not in sent:
        raise InvalidArgument(
            f"{name} is no batch of operations.",
            hint='It should be a list of operations, or {"protocolVersion": "1.0", "operations": [...]}.',
        )
    return sent


def ids(given: Sequence[str | None]) -> list[str]:
    """What each operation is called, by its own id or else its number. Whoever runs operations and whoever shows what
    became of them ask here: a command must never be shown with another's verdict."""
    taken = set(given)
    return [own or _free(f"op-{number}", taken) for number, own in enumerate(given, 1)]


def _free(name: str, taken: Collection[str | None]) -> str:
    while name in taken:
        name += "_"
    return name


def is_json(text: str, name: str = "") -> bool:
    return not name.endswith((".yaml", ".yml")) and text.lstrip().startswith(("{", "["))


def yaml_tree(text: str) -> Any:
    """PyYAML's nodes of a text that `read` has read; they know where they begin."""
    yaml = importlib.import_module("yaml")
    return yaml.compose(text, _loader(yaml))


def line_of(mark: Any, text: str) -> int:
    return _place(text, mark.index)[0]


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column as editors count: to YAML, some other characters end a line as well. What ends too soon ends
    where its last word does, and not on a line that is not there."""
    index = min(index, len(text.rstrip()))
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _json(text: str, name: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, column = _place(text, error.pos)
        hint = _QUOTES if text[: error.pos + 1].endswith("{{") else None
        line += first_line - 1
        place = f"{error.msg}, line {line}, column {column}"
        raise InvalidArgument(f"{name} is not valid JSON: {place}.", hint=hint, line=line) from None
    except (RecursionError, ValueError) as error:  # so many digits that Python makes no number of them
        told = "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON: a number is too long"
        raise InvalidArgument(f"{name} is {told}.") from None


def _yaml(text: str, name: str, first_line: int) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise InvalidArgument(
            f"{name} is not JSON, and YAML cannot be read here.", hint="Write JSON, or `pip install PyYAML`."
        ) from None
    try:
        sent = yaml.load(text, _loader(yaml))
        json.dumps(sent)
    except yaml.MarkedYAMLError as error:
        raise _marked(error, text, name, first_line) from None
    except RecursionError:
        raise InvalidArgument(f"{name} is nested too deeply.") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} holds what JSON cannot: {error}.") from None
    except (LookupError, AttributeError):  # what PyYAML raises for a tag with a value that is none of its kind
        raise InvalidArgument(f"{name} holds a tag that does not fit its value.", hint="Leave tags out.") from None
    if isinstance(sent, dict) and sent.get("protocolVersion") == 1.0:
        sent["protocolVersion"] = PROTOCOL_VERSION  # to YAML, an unquoted 1.0 is a number
    return sent


def _marked(error: Any, text: str, name: str, first_line: int) -> InvalidArgument:
    mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
    if mark is None:
        return InvalidArgument(f"{name} is not valid YAML: {problem}.")
    line, column = _place(text, mark.index)
    # Braces begin a mapping, whose key would be one as well.
    is_variable = problem == "found unhashable key" and "{{" in text.split("\n")[line - 1]
    hint = _QUOTES if is_variable else None
    line += first_line - 1
    place = f"{problem}, line {line}, column {column}"
    return InvalidArgument(f"{name} is not valid YAML: {place}.", hint=hint, line=line)


def _loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
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

    return Loader
