"""Render the overview of a workspace and its policy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import table_views, units
from wap_kernel.client.render.blocks import (
    Block,
    Fields,
    Fold,
    Header,
    Room,
    Row,
    Span,
    code_spans,
    muted_row,
    text_spans,
)

Data = Mapping[str, Any]
LONGEST_LIST = 2000
MOST_TRIED = 10
MOST_CONDITIONS = 3
NO_SERVER = "To use one: open the notebook on a Jupyter server with wap, or set WAP_URL and WAP_TOKEN and restart."


def overview(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    endpoint, workspace = data.get("endpoint", {}), data.get("workspace", {})
    waiting = data.get("waiting", ())
    confines = f"({_describe_commands(workspace)})"
    is_server = endpoint.get("kind") == "server"
    where = [
        Span(str(endpoint.get("name", "")), "code"),
        Span(f" {_parenthesize(endpoint.get('reason', ''))}", "muted"),
    ]
    rows: list[tuple[str, tuple[Span, ...]]] = [
        ("workspace", code_spans(workspace.get("root", ""))),
        ("server" if is_server else "no server", tuple(where)),
        ("provider", (Span(str(workspace.get("provider", ""))), Span(f" {confines}", "muted"))),
        ("policy", text_spans(str(data.get("preset", "")))),
    ]
    facts = (f"{len(waiting):,} waiting for approval",) if waiting else ("nothing waits for approval",)
    version = str(workspace.get("version", ""))
    blocks: list[Block] = [
        Header("asks" if waiting else "plain", "", (Span("wap", "strong"), Span(f" {version}")), facts)
    ]
    blocks.append(Fields(tuple((name, _truncate(spans)) for name, spans in rows)))
    blocks += _tried(endpoint.get("tried", ()))
    listed = list(waiting)[: max(room.rows // 4, 1)]
    blocks += [table_views.waiting_row(run, prefix) for run in listed if run.get("pendingApproval")]
    if len(waiting) > len(listed):
        blocks.append(muted_row(f"… {len(waiting) - len(listed):,} more"))
    if running := data.get("running"):
        see = Span(f"{prefix}runs -s running", "type")
        blocks.append(Row((Span(f"{units.format_count(running, 'run')} under way, see ", "muted"), see), "busy", "now"))
    return [*blocks, Row((Span("Help: ", "muted"), Span(f"{prefix}--help" if prefix else "help", "type")))]


def _describe_commands(workspace: Data) -> str:
    if not workspace.get("confinesCommands"):
        return "commands are not confined and write directly: no undo"
    if workspace.get("isolation") == "shared":
        return "commands are confined and write directly: no undo"
    return "commands are confined, and their changes are judged before they are applied"


def _tried(sources: Sequence[object]) -> list[Block]:
    """Return why there is no server, and how to use one."""
    if not sources:
        return []
    rows = [muted_row(units.truncate_line(f"{source}.")) for source in sources[:MOST_TRIED]]
    return [Fold("where a server was looked for", (*rows, muted_row(NO_SERVER)))]


def policy(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    effective, layers = data.get("effective", {}), data.get("layers", ())
    names = units.join_facts(str(layer.get("name", "")) for layer in layers[:10])
    broken = effective.get("broken")
    blocks: list[Block] = [Header("failed" if broken else "plain", "", (Span("Policy "), Span(names, "strong")))]
    if broken:
        blocks.append(Row((Span(units.truncate_line(str(broken))),), "denied", "broken"))
    only = _allowed_commands(layers)
    is_layered = data.get("isolation") == "layer"
    blocks.append(Fields((*_effective_fields(effective), *_only_field(only, effective))))
    for layer in layers[: room.rows]:
        lists = list(_layer_fields(layer, only, is_layered=is_layered))
        if lists:
            blocks.append(Fold(f"what {layer.get('name', '')} says", (Fields(tuple(lists)),)))
    check = f"{prefix}check sh COMMAND"
    return [*blocks, Row((Span("To ask about a command: ", "muted"), Span(check, "type")))]


def _effective_fields(effective: Data) -> Iterable[tuple[str, tuple[Span, ...]]]:
    access = {"none": "none", "read": "read only", "read-write": "read and write"}
    yield "files", text_spans(access.get(str(effective.get("access")), str(effective.get("access", ""))))
    yield "commands", text_spans("allowed, by the rules below" if effective.get("shell") else "none")
    yield "network", text_spans({"full": "yes", "none": "none"}.get(str(effective.get("network")), ""))
    for name, label in (("maxFileSize", "largest file"), ("maxEditSize", "largest edit")):
        if name in effective:
            yield label, text_spans(units.format_size(effective[name]))
    if isinstance(limit := effective.get("maxTimeoutMs"), int):
        yield "longest command", text_spans(units.format_duration(limit))
    if confirm := effective.get("confirmationRequired"):
        yield "asks before", text_spans(_join_items(confirm))
    yield from _effect_fields(effective.get("effects", {}))


def _effect_fields(effects: Data) -> Iterable[tuple[str, tuple[Span, ...]]]:
    """Yield the changes that need an approval, whichever tool or command makes them."""
    if obeyed := effects.get("obeyedFiles"):
        yield "asks to change", code_spans(_join_items(obeyed))
    limits = [
        f"{effects[name]:,} {noun}"
        for name, noun in (("maxDeletions", "deleted files"), ("maxChanges", "changed files"))
        if isinstance(effects.get(name), int)
    ]
    limits += [units.format_size(effects["maxBytes"])] if "maxBytes" in effects else []
    if limits:
        yield "asks beyond", text_spans(f"{', '.join(limits)} at once")


def _allowed_commands(layers: Iterable[Data]) -> list[str] | None:
    """Return the commands that every `allowedCommands` allows, or None where no layer has such a list."""
    shells = [layer.get("shell", {}) for layer in layers]
    lists = [_CommandPrefixes(shell["allowedCommands"]) for shell in shells if "allowedCommands" in shell]
    if not lists:
        return None
    entries = dict.fromkeys(" ".join(words) for each in lists for words in each.entries)
    return [entry for entry in entries if all(each.match(entry) for each in lists)]


class _CommandPrefixes:
    """Programs with their first words.

    Lookups are fast for as many as a policy can hold, since a file of the workspace may be a policy.
    """

    def __init__(self, entries: Iterable[object]) -> None:
        self.entries = tuple(dict.fromkeys(tuple(str(entry).split()) for entry in entries))
        self._known = set(self.entries)
        self._lengths = sorted({len(words) for words in self.entries})
        self._sorted = sorted(self.entries)

    def match(self, command: str) -> bool:
        words = tuple(command.split())
        return any(words[:length] in self._known for length in self._lengths if length <= len(words))

    def extend(self, command: str) -> bool:
        words = tuple(command.split())
        index = bisect_left(self._sorted, words)
        return index < len(self._sorted) and self._sorted[index][: len(words)] == words


def _only_field(only: list[str] | None, effective: Data) -> Iterable[tuple[str, tuple[Span, ...]]]:
    if only is not None and effective.get("shell"):
        yield "only these commands", code_spans(_join_items(only)) if only else text_spans("none")


def _layer_fields(layer: Data, only: list[str] | None, *, is_layered: bool) -> Iterable[tuple[str, tuple[Span, ...]]]:
    """Yield what one layer of policy says; rules that do not count on a Layer are left out where commands have one."""
    files, shell = layer.get("filesystem", {}), layer.get("shell", {})
    labels = {"allowedPaths": "only these paths", "deniedPaths": "closed paths", "readOnlyPaths": "read-only paths"}
    for field, label in labels.items():
        if files.get(field):
            yield label, code_spans(_join_items(files[field]))
    rules = _relevant_rules(shell.get("rules", ()), only)
    rules = [rule for rule in rules if not (is_layered and rule.get("unlessLayered"))]
    verdicts: dict[object, set[object]] = {}
    for rule in rules:
        verdicts.setdefault(rule.get("command"), set()).add(rule.get("verdict"))
    for verdict, label in (("allow", "allowed commands"), ("ask", "commands that ask"), ("deny", "denied commands")):
        if fitting := [rule for rule in rules if rule.get("verdict") == verdict]:
            # `mv` is allowed, `mv` to outside asks: only for such commands the conditions are shown.
            is_one_of_several = (len(verdicts[rule.get("command")]) > 1 for rule in fitting)
            yield label, code_spans(_join_items(map(_describe_rule, fitting, is_one_of_several)))
    if shell.get("blockedCommands"):
        yield "blocked commands", code_spans(_join_items(shell["blockedCommands"]))
    if "unknown" in shell:
        verdict = str(shell["unknown"])
        if shell.get("unlessLayered"):
            verdict = "run on a layer, and their changes are judged" if is_layered else f"{verdict} (without a layer)"
        yield "other commands" if only is None else "without a rule", text_spans(verdict)
    if "shared" in shell:
        yield "shared commands", text_spans(f"{shell['shared']} (of agents)")


def _relevant_rules(rules: Iterable[Data], only: list[str] | None) -> list[Data]:
    """Return the rules for commands that the list allows; the others are denied, whatever a rule says."""
    if only is None:
        return list(rules)
    listed = _CommandPrefixes(only)
    commands = ((rule, str(rule.get("command", ""))) for rule in rules)
    return [rule for rule, command in commands if listed.match(command) or listed.extend(command)]


def _describe_rule(rule: Data, is_one_of_several: bool) -> str:
    command = str(rule.get("command", ""))
    unlayered = "without a layer" if rule.get("unlessLayered") else ""
    if not is_one_of_several:
        return f"{command} ({unlayered})" if unlayered else command
    text = " ".join(filter(None, (command, _join_some(rule.get("having", ()), "|"))))
    conditions = (
        f"not with {_join_some(rule['without'], ' ')}" if rule.get("without") else "",
        f"on {_join_some(rule['targets'], ' ')}" if rule.get("targets") else "",
        "outside the workspace" if rule.get("leaving") else "",
        "alone" if rule.get("alone") else "",
        unlayered,
    )
    joined = "; ".join(filter(None, conditions))
    return f"{text} ({joined})" if joined else text


def _join_some(items: Sequence[object], between: str) -> str:
    more = ("…",) if len(items) > MOST_CONDITIONS else ()
    return between.join(map(str, (*items[:MOST_CONDITIONS], *more)))


def _join_items(items: Iterable[object]) -> str:
    return units.truncate_line(", ".join(dict.fromkeys(map(str, items))), LONGEST_LIST)


def _truncate(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(span._replace(text=units.truncate_line(span.text)) for span in spans)


def _parenthesize(text: object) -> str:
    return f"({text})" if text else ""
