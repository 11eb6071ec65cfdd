"""The configurations in docs/clients.md, as each client reads its own form: an address with headers, or a command."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # hatchling brings it

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
TOKEN = "WAP_TOKEN"
_VARIABLES = {f"${{env:{TOKEN}}}": TOKEN, f"{{env:{TOKEN}}}": TOKEN, f"${TOKEN}": TOKEN}
"""How Cursor, opencode and Gemini CLI name a variable of the environment."""


@dataclass(frozen=True)
class Connection:
    """What a client was told."""

    client: str
    name: str
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.client}: {self.name}"


def list_parts(text: str) -> Iterator[tuple[str, str]]:
    """List the name of each client in the document, and what the document says of it."""
    written = text.partition("## Configurations")[2].partition("\n## ")[0]
    for part in re.split(r"^(?=\*\*)", written, flags=re.MULTILINE)[1:]:
        yield part.partition("**")[2].partition("**")[0], part


def find_block(text: str, client: str, language: str) -> str:
    """Return the only block in `language` that the document has for a client."""
    (part,) = (part for name, part in list_parts(text) if name == client)
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return str(block)


def connections(text: str, environment: Mapping[str, str]) -> Iterator[Connection]:
    """Of a document in which the reader's own addresses and paths have been put."""
    for client, part in list_parts(text):
        for language, block in re.findall(r"^```(json|toml)\n(.*?)^```", part, re.MULTILINE | re.DOTALL):
            read = json.loads(block) if language == "json" else tomllib.loads(block)
            for name, told in _servers(read).items():
                yield _connection(client, name, told, _known(read, environment))
        for line in re.findall(r"^    (claude mcp add .*)$", part, re.MULTILINE):
            yield _added(client, shlex.split(line)[3:])


def _servers(read: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (found,) = (read[key] for key in ("mcpServers", "mcp_servers", "mcp", "servers") if key in read)
    return {one["name"]: one for one in found} if isinstance(found, list) else found


def _known(read: dict[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """What stands for a value. VS Code asks for its inputs, and is told the token here."""
    asked = {f"${{input:{each['id']}}}": environment[TOKEN] for each in read.get("inputs", ())}
    return {text: environment[name] for text, name in _VARIABLES.items()} | asked | {TOKEN: environment[TOKEN]}


def _connection(client: str, name: str, told: dict[str, Any], known: Mapping[str, str]) -> Connection:
    if "command" in told:
        words = told["command"] if isinstance(told["command"], list) else [told["command"], *told["args"]]
        return Connection(client, name, command=tuple(words))
    headers = told.get("headers", {})
    if isinstance(headers, list):
        headers = {one["name"]: one["value"] for one in headers}
    if "bearer_token_env_var" in told:
        headers = {"Authorization": f"Bearer {known[told['bearer_token_env_var']]}"}
    url = told.get("httpUrl") or told["url"]
    return Connection(client, name, url, {key: _filled(value, known) for key, value in headers.items()})


def _filled(text: str, known: Mapping[str, str]) -> str:
    for name, value in sorted(known.items(), key=lambda item: -len(item[0])):
        text = text.replace(name, value)
    return text


def _added(client: str, words: list[str]) -> Connection:
    """`claude mcp add NAME -- COMMAND`, or `--transport http NAME URL --header "NAME: VALUE"`."""
    if "--" in words:
        return Connection(client, f"{words[0]} added", command=tuple(words[words.index("--") + 1 :]))
    transport, kind, name, url, option, header = words
    assert (transport, kind, option) == ("--transport", "http", "--header"), words
    key, _, value = header.partition(": ")
    return Connection(client, f"{name} added", url, {key: value})
