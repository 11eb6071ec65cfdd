"""Parse a policy from JSON: one layer in, one `Policy` out. Pure.

Two forms are understood, also mixed: the flat one of `.cws-policy.json` (`allowedPaths`, `maxFileSize`, ...) and the
sectioned one (`filesystem`, `shell`, `network`, `effects`). What cannot be understood completely is a *broken* policy,
which refuses everything and says where it is wrong; there is no falling back to something wider.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from pydantic import ValidationError

from wap_kernel.files.globs.sets import IncludeSet
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_POLICY_BYTES
from wap_kernel.model.policy import CommandRule, Policy
from wap_kernel.model.tool_names import OLDER_KEYS, OPERATIONS_BY_TOOL, find_operations
from wap_kernel.policy.paths.patterns import PathPatterns

FLAT = {
    "allowedPaths": ("filesystem", "allowedPaths"),
    "deniedPaths": ("filesystem", "deniedPaths"),
    "maxFileSize": ("filesystem", "maxFileSize"),
    "maxEditSize": ("filesystem", "maxEditSize"),
    "allowedCommands": ("shell", "allowedCommands"),
    "envAllowlist": ("shell", "envAllowlist"),
}
"""The flat fields, and where they stand in the sectioned form."""
SECTIONS = ("filesystem", "shell", "network", "effects")
FIELDS = (*SECTIONS, "confirmationRequired")
KNOWN = (*FIELDS, *FLAT)

_JOINED = {
    *(("filesystem", "denied_paths"), ("filesystem", "read_only_paths")),
    *(("shell", "blocked_commands"), ("effects", "obeyed_files")),
}
"""Lists to which a layer adds; any other field of it replaces the preset's."""


class _PolicyProblem(Exception):
    """The problem of a broken policy. It never leaves this module."""


def parse_policy(data: bytes, name: str) -> Policy:
    """Return the layer in `data`; one that cannot be read is `broken`."""
    try:
        fields = _parse_object(data)
        preset = fields.pop("preset", None)
        overrides = _build_policy(fields, name, known=(*KNOWN, "preset"))
        return (
            overrides if preset is None else _merge(_load_preset(preset), overrides).model_copy(update={"name": name})
        )
    except _PolicyProblem as wrong:
        return Policy(name=name, broken=str(wrong))


def merge_policy(preset: Policy, overrides: Mapping[str, Any]) -> Policy:
    """Return `preset` with the fields of `overrides`, in either form; a result that cannot be read is `broken`."""
    try:
        if "preset" in overrides:
            raise _PolicyProblem("preset: it is named beside these fields, not among them (WapExtension.preset)")
        return _merge(preset, _build_policy(overrides, preset.name, known=KNOWN))
    except _PolicyProblem as wrong:
        return Policy(name=preset.name, broken=str(wrong))


def _parse_object(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_POLICY_BYTES:
        raise _PolicyProblem(f"it is larger than {MAX_POLICY_BYTES} bytes")
    try:
        found = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise _PolicyProblem(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise _PolicyProblem(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise _PolicyProblem("it is nested too deeply") from None
    except ValueError:  # a number with thousands of digits
        raise _PolicyProblem("a number is too large") from None
    if not isinstance(found, dict):
        raise _PolicyProblem("it is not an object with fields")
    return found


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _PolicyProblem(f"{next(name for name in names if names.count(name) > 1)}: the field occurs twice")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise _PolicyProblem(f"{text} is not a number")


def _build_policy(fields: Mapping[str, Any], name: str, *, known: Iterable[str]) -> Policy:
    """Return the policy of checked fields in either form; its `model_fields_set` has those that were there."""
    sectioned = _to_sections(fields, known)
    try:
        # By way of JSON, where being strict about types does not mean that a list cannot be a tuple.
        policy = Policy.model_validate_json(json.dumps(sectioned), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _PolicyProblem(f"{where}: {first['msg']}" if where else first["msg"]) from None
    except (TypeError, ValueError, RecursionError):
        raise _PolicyProblem("it holds something that is not JSON") from None
    _check_globs(policy)
    for tool in policy.confirmation_required:
        if find_operations(tool) is None:
            raise _PolicyProblem(
                f"confirmationRequired: unknown tool {tool!r}; known are"
                f" {', '.join(sorted({*OPERATIONS_BY_TOOL, *OLDER_KEYS}))}"
            )
    return policy.model_copy(update={"name": name})


def _to_sections(fields: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    for field in fields:
        if field not in KNOWN:
            raise _PolicyProblem(f"{field}: unknown field; known are {', '.join(known)}")
    sections = {field: fields[field] for field in FIELDS if field in fields}
    for field in SECTIONS:
        if not isinstance(sections.get(field, {}), Mapping):
            raise _PolicyProblem(f"{field}: it is not an object with fields")
    for field, (section, inner) in FLAT.items():
        if field in fields:
            if inner in sections.get(section, {}):
                raise _PolicyProblem(f"{field}: the field occurs twice, in {section} and outside")
            sections[section] = {**sections.get(section, {}), inner: fields[field]}
    if bad := _find_underscore(sections):
        raise _PolicyProblem(f"{bad}: unknown field; names are written like maxFileSize")
    return sections


def _find_underscore(value: Any) -> str | None:
    """Return a field that is spelled as in Python. The model would accept it, but a file has one spelling."""
    if isinstance(value, Mapping):
        return next((str(k) for k in value if "_" in str(k)), None) or _find_underscore(list(value.values()))
    if isinstance(value, list | tuple):
        return next(filter(None, map(_find_underscore, value)), None)
    return None


def _check_globs(policy: Policy) -> None:
    filesystem = policy.filesystem
    for pattern in filesystem.allowed_paths or ():
        if pattern.startswith(("!", "/")) or not pattern.strip("./") or ".." in pattern.split("/"):
            raise _PolicyProblem(
                f"filesystem.allowedPaths: {pattern!r} selects nothing; patterns are relative to the workspace, like"
                " src/** or **/*.py"
            )
    for field, patterns, compiled in (
        ("filesystem.deniedPaths", filesystem.denied_paths, PathPatterns),
        ("filesystem.readOnlyPaths", filesystem.read_only_paths, PathPatterns),
        ("filesystem.allowedPaths", filesystem.allowed_paths or (), IncludeSet),
        ("effects.obeyedFiles", policy.effects.obeyed_files, PathPatterns),
    ):
        try:
            compiled(patterns)
        except InvalidArgument as error:
            raise _PolicyProblem(f"{field}: {error.text}") from None


def _load_preset(name: object) -> Policy:
    from wap_kernel.policy import presets  # presets are policies in files of their own

    if not isinstance(name, str) or name not in presets.PRESETS:
        raise _PolicyProblem(f"preset: unknown preset {name!r}; known are {', '.join(presets.PRESETS)}")
    return presets.load_preset(name)


def _merge(base: Policy, over: Policy) -> Policy:
    if base.broken is not None:
        return base
    changes: dict[str, Any] = {}
    for section in over.model_fields_set & set(SECTIONS):
        old, new = getattr(base, section), getattr(over, section)
        fields = {field: getattr(new, field) for field in new.model_fields_set}
        for field, value in fields.items():
            if (section, field) in _JOINED:
                fields[field] = tuple(dict.fromkeys((*getattr(old, field), *value)))
            elif (section, field) == ("shell", "rules"):
                fields[field] = tuple(_merge_rules(old.rules, value))
        changes[section] = old.model_copy(update=fields)
    confirmed = (*base.confirmation_required, *over.confirmation_required)
    merged = base.model_copy(update={**changes, "confirmation_required": tuple(dict.fromkeys(confirmed))})
    _check_globs(merged)
    return merged


def _merge_rules(old: Iterable[CommandRule], new: Iterable[CommandRule]) -> Iterable[CommandRule]:
    """Return the rules, where a new one replaces the old one about the same commands."""
    return {_rule_key(rule): rule for rule in (*old, *new)}.values()


def _rule_key(rule: CommandRule) -> tuple[object, ...]:
    return (
        rule.command,
        frozenset(rule.having),
        frozenset(rule.without),
        frozenset(rule.targets),
        rule.alone,
        rule.leaving,
    )
