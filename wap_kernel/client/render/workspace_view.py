"""Where one is and what is allowed there: the overview and the policy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import cutting, table_views, units
from wap_kernel.client.render.blocks import Block, Fields, Fold, Head, Room, Row, Span, code, muted, plain

Data = Mapping[str, Any]
LONGEST_LIST = 2000
MOST_TRIED = 10
MOST_CONDITIONS = 3
NO_SERVER = "To use one: open the notebook on a Jupyter server with wap, or set WAP_URL and WAP_TOKEN and restart."


def overview(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    place, workspace = data.get("place", {}), data.get("workspace", {})
    waiting = data.get("waiting", ())
    confines = "(commands are confined)" if workspace.get("confinesCommands") else "(commands are not confined)"
    is_server = place.get("kind") == "server"
    where = [Span(str(place.get("name", "")), "code"), Span(f" {_sentence(place.get('reason', ''))}", "muted")]
    rows: list[tuple[str, tuple[Span, ...]]] = [
        ("workspace", code(workspace.get("root", ""))),
        ("server" if is_server else "no server", tuple(where)),
        ("provider", (Span(str(workspace.get("provider", ""))), Span(f" {confines}", "muted"))),
        ("policy", plain(str(data.get("preset", "")))),
    ]
    facts = (f"{len(waiting):,} waiting for approval",) if waiting else ("nothing waits for approval",)
    version = str(workspace.get("version", ""))
    found: list[Block] = [Head("asks" if waiting else "plain", "", (Span("wap", "strong"), Span(f" {version}")), facts)]
    found.append(Fields(tuple((name, _cut(spans)) for name, spans in rows)))
    found += _tried(place.get("tried", ()))
    shown = list(waiting)[: max(room.rows // 4, 1)]
    found += [table_views.waiting_row(run, prefix) for run in shown if run.get("pendingApproval")]
    if len(waiting) > len(shown):
        found.append(muted(f"… {len(waiting) - len(shown):,} more"))
    if running := data.get("running"):
        see = Span(f"{prefix}runs -s running", "type")
        found.append(Row((Span(f"{units.counted(running, 'run')} under way, see ", "muted"), see), "busy", "now"))
    return [*found, Row((Span("Help: ", "muted"), Span(f"{prefix}--help" if prefix else "help", "type")))]


def _tried(places: Sequence[object]) -> list[Block]:
    """Why there is no server, and how to get one."""
    if not places:
        return []
    told = [muted(cutting.line(f"{place}.")) for place in places[:MOST_TRIED]]
    return [Fold("where a server was looked for", (*told, muted(NO_SERVER)))]


def policy(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    effective, layers = data.get("effective", {}), data.get("layers", ())
    names = units.joined(str(layer.get("name", "")) for layer in layers[:10])
    broken = effective.get("broken")
    found: list[Block] = [Head("failed" if broken else "plain", "", (Span("Policy "), Span(names, "strong")))]
    if broken:
        found.append(Row((Span(cutting.line(str(broken))),), "denied", "broken"))
    only = _only(layers)
    found.append(Fields((*_effective(effective), *_only_these(only, effective))))
    for layer in layers[: room.rows]:
        lists = list(_lists(layer, only))
        if lists:
            found.append(Fold(f"what {layer.get('name', '')} says", (Fields(tuple(lists)),)))
    check = f"{prefix}check sh COMMAND"
    return [*found, Row((Span("To ask about a command: ", "muted"), Span(check, "type")))]


def _effective(effective: Data) -> Iterable[tuple[str, tuple[Span, ...]]]:
    access = {"none": "none", "read": "read only", "read-write": "read and write"}
    yield "files", plain(access.get(str(effective.get("access")), str(effective.get("access", ""))))
    yield "commands", plain("allowed, by the rules below" if effective.get("shell") else "none")
    yield "network", plain({"full": "yes", "none": "none"}.get(str(effective.get("network")), ""))
    for name, said in (("maxFileSize", "largest file"), ("maxEditSize", "largest edit")):
        if name in effective:
            yield said, plain(units.size(effective[name]))
    if isinstance(limit := effective.get("maxTimeoutMs"), int):
        yield "longest command", plain(units.duration(limit))
    if confirm := effective.get("confirmationRequired"):
        yield "asks before", plain(_listed(confirm))


def _only(layers: Iterable[Data]) -> list[str] | None:
    """The commands that every `allowedCommands` lets through; None where no layer has such a list."""
    shells = [layer.get("shell", {}) for layer in layers]
    lists = [_Beginnings(shell["allowedCommands"]) for shell in shells if "allowedCommands" in shell]
    if not lists:
        return None
    entries = dict.fromkeys(" ".join(words) for each in lists for words in each.entries)
    return [entry for entry in entries if all(each.begin(entry) for each in lists)]


class _Beginnings:
    """Programs with their first words. Quick for as many as a policy can hold: a file of the workspace may be one."""

    def __init__(self, entries: Iterable[object]) -> None:
        self.entries = tuple(dict.fromkeys(tuple(str(entry).split()) for entry in entries))
        self._known = set(self.entries)
        self._lengths = sorted({len(words) for words in self.entries})
        self._sorted = sorted(self.entries)

    def begin(self, command: str) -> bool:
        words = tuple(command.split())
        return any(words[:length] in self._known for length in self._lengths if length <= len(words))

    def go_on_from(self, command: str) -> bool:
        words = tuple(command.split())
        place = bisect_left(self._sorted, words)
        return place < len(self._sorted) and self._sorted[place][: len(words)] == words


def _only_these(only: list[str] | None, effective: Data) -> Iterable[tuple[str, tuple[Span, ...]]]:
    if only is not None and effective.get("shell"):
        yield "only these commands", code(_listed(only)) if only else plain("none")


def _lists(layer: Data, only: list[str] | None) -> Iterable[tuple[str, tuple[Span, ...]]]:
    files, shell = layer.get("filesystem", {}), layer.get("shell", {})
    named = {"allowedPaths": "only these paths", "deniedPaths": "closed paths", "readOnlyPaths": "read-only paths"}
    for field, said in named.items():
        if files.get(field):
            yield said, code(_listed(files[field]))
    rules = _concerning(shell.get("rules", ()), only)
    verdicts: dict[object, set[object]] = {}
    for rule in rules:
        verdicts.setdefault(rule.get("command"), set()).add(rule.get("verdict"))
    for verdict, said in (("allow", "allowed commands"), ("ask", "commands that ask"), ("deny", "denied commands")):
        if fitting := [rule for rule in rules if rule.get("verdict") == verdict]:
            # `mv` runs, `mv` to outside asks: only such a command needs its conditions to be understood.
            is_one_of_several = (len(verdicts[rule.get("command")]) > 1 for rule in fitting)
            yield said, code(_listed(map(_rule, fitting, is_one_of_several)))
    if shell.get("blockedCommands"):
        yield "blocked commands", code(_listed(shell["blockedCommands"]))
    if "unknown" in shell:
        yield "other commands" if only is None else "without a rule", plain(str(shell["unknown"]))


def _concerning(rules: Iterable[Data], only: list[str] | None) -> list[Data]:
    """What no list lets through is denied, whatever a rule says about it."""
    if only is None:
        return list(rules)
    listed = _Beginnings(only)
    named = ((rule, str(rule.get("command", ""))) for rule in rules)
    return [rule for rule, command in named if listed.begin(command) or listed.go_on_from(command)]


def _rule(rule: Data, is_one_of_several: bool) -> str:
    command = str(rule.get("command", ""))
    if not is_one_of_several:
        return command
    said = " ".join(filter(None, (command, _some(rule.get("having", ()), "|"))))
    conditions = (
        f"not with {_some(rule['without'], ' ')}" if rule.get("without") else "",
        f"on {_some(rule['targets'], ' ')}" if rule.get("targets") else "",
        "outside the workspace" if rule.get("leaving") else "",
        "alone" if rule.get("alone") else "",
    )
    told = "; ".join(filter(None, conditions))
    return f"{said} ({told})" if told else said


def _some(items: Sequence[object], between: str) -> str:
    more = ("…",) if len(items) > MOST_CONDITIONS else ()
    return between.join(map(str, (*items[:MOST_CONDITIONS], *more)))


def _listed(items: Iterable[object]) -> str:
    return cutting.line(", ".join(dict.fromkeys(map(str, items))), LONGEST_LIST)


def _cut(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(span._replace(text=cutting.line(span.text)) for span in spans)


def _sentence(text: object) -> str:
    said = str(text)
    return f"({said})" if said else ""
