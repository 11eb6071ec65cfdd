"""The conformance suite 0.2 of MCP, which is an alpha, in each version of the protocol.

The suite's example server has tools, resources and prompts that a workspace does not have, so not all scenarios apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.conformance_suite import SOURCE, Checks, find_troubles, list_passed, run_scenarios, run_suite
from tests.support.program_cache import install_npm_lock
from tests.support.server_processes import LiveServer, start_server

pytestmark = pytest.mark.download

EXTENSION = "extension"
V3, V6, V11, V7 = VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

APPLY: dict[str, tuple[str, ...]] = {
    "server-session-lifecycle": (V3, V6, V11),
    **dict.fromkeys(("server-initialize", "logging-set-level", "ping"), (V6, V11)),
    **dict.fromkeys(("completion-complete", "tools-list", "resources-list", "prompts-list"), (V6, V11, V7)),
    **dict.fromkeys(("server-sse-multiple-streams", "dns-rebinding-protection"), (V11, V7)),
    **dict.fromkeys(
        (
            *("server-stateless", "sep-2164-resource-not-found", "caching", "http-header-validation"),
            "input-required-result-unsupported-methods",
        ),
        (V7,),
    ),
}
"""The scenarios that apply, with the versions in which the suite has them."""
FORCED = tuple(scenario for scenario, versions in APPLY.items() if V6 in versions and V3 not in versions)
"""The scenarios that run in 2025-03-26, too, though the suite does not choose them there by itself."""

_TOOLS = "calls a tool of the suite's own example server (test_...), which a workspace does not have"
_FILES = "names a resource of the suite's own example server (test://...); ours are files"
_PROMPTS = "names a prompt of the suite's own example server (test_...)"
_HEADERS = "wants a tool with x-mcp-header, a parameter that is repeated in a header; no tool has one"
_TASKS = "wants the extension of tasks, which the server does not declare; a run does the same (getRun, cancelRun)"
_SKILLS = "wants the extension of skills, which the server does not declare"
_INPUT = "input-required-result-"
DO_NOT_APPLY: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"),
            *("tools-call-mixed-content", "tools-call-error", "tools-call-with-progress"),
        ),
        (_TOOLS, (V6, V11, V7)),
    ),
    **dict.fromkeys(
        ("tools-call-with-logging", "tools-call-sampling", "tools-call-elicitation"),
        (_TOOLS, (V6, V11)),
    ),
    "json-schema-2020-12": (_TOOLS, (V11, V7)),
    **dict.fromkeys(
        ("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "server-sse-polling"),
        (_TOOLS, (V11,)),
    ),
    **dict.fromkeys(
        (
            *(f"{_INPUT}basic-elicitation", f"{_INPUT}basic-sampling", f"{_INPUT}basic-list-roots"),
            *(f"{_INPUT}request-state", f"{_INPUT}multiple-input-requests", f"{_INPUT}multi-round"),
            *(f"{_INPUT}missing-input-response", f"{_INPUT}result-type", f"{_INPUT}tampered-state"),
            *(f"{_INPUT}capability-check", f"{_INPUT}ignore-extra-params", f"{_INPUT}validate-input"),
        ),
        (_TOOLS, (V7,)),
    ),
    **dict.fromkeys(
        ("resources-read-text", "resources-read-binary", "resources-templates-read"), (_FILES, (V6, V11, V7))
    ),
    **dict.fromkeys(("resources-subscribe", "resources-unsubscribe"), (_FILES, (V6, V11))),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
            "prompts-get-with-image",
        ),
        (_PROMPTS, (V6, V11, V7)),
    ),
    f"{_INPUT}non-tool-request": (_PROMPTS, (V7,)),
    "http-custom-header-server-validation": (_HEADERS, (V7,)),
    **dict.fromkeys(
        (
            *("tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal"),
            *("tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope"),
            *("tasks-status-notifications", "tasks-required-task-error", "tasks-mrtr-composition"),
        ),
        (_TASKS, (EXTENSION,)),
    ),
    **dict.fromkeys(
        ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"),
        (_SKILLS, (EXTENSION,)),
    ),
}
"""The scenarios that do not apply, with the reason and the versions in which the suite has them."""

NOT_TESTABLE = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    }
}
"""The checks of scenarios that apply which want a tool of the suite's example server; see test_stateless_protocol.py.

No request of ours needs a capability of the client: an approval that the client cannot ask for waits in Jupyter.
"""
WIRE = "wire-schema-valid"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with start_server(tmp_path_factory.mktemp("server")) as started:
        (started.root / "a.txt").write_text("a\n")
        yield started


@pytest.fixture(scope="module")
def modules() -> Path:
    return install_npm_lock("mcp-conformance", SOURCE).parent


def _check_passed(scenario: str, checks: Checks) -> None:
    troubles = find_troubles(checks)
    assert set(troubles) == NOT_TESTABLE.get(scenario, set()), troubles
    assert all(message.startswith("Not testable: server does not list the diag") for message in troubles.values())
    assert set(list_passed(checks)) - {WIRE}, scenario


def test_every_scenario_is_known(modules: Path) -> None:
    listed = run_suite(modules, "list", "--server").stdout
    found = {
        name: tuple(versions.split(",")) for name, versions in re.findall(r"^\s+- ([\w-]+) \[(.+)\]", listed, re.M)
    }
    assert found == {**APPLY, **{name: versions for name, (_, versions) in DO_NOT_APPLY.items()}}
    assert not set(APPLY) & set(DO_NOT_APPLY)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_applies_passes(modules: Path, server: LiveServer, tmp_path: Path, version: str) -> None:
    found = run_scenarios(modules, server, tmp_path, version, "--suite", "all", "--spec-version", version)
    known = {**APPLY, **{name: versions for name, (_, versions) in DO_NOT_APPLY.items()}}
    assert set(found) == {name for name, versions in known.items() if version in versions}
    for scenario, checks in found.items():
        if scenario in APPLY:
            _check_passed(scenario, checks)
        # Also where a scenario does not apply, every message of the server fits the schema of the version.
        assert WIRE not in find_troubles(checks), checks


@pytest.mark.parametrize("scenario", FORCED)
def test_what_applies_later_passes_in_the_first_version(
    modules: Path, server: LiveServer, tmp_path: Path, scenario: str
) -> None:
    choice = ("--scenario", scenario, "--spec-version", V3, "--force")
    checks = run_scenarios(modules, server, tmp_path, V3, *choice)[scenario]
    _check_passed(scenario, checks)
    assert WIRE in list_passed(checks)


def test_what_does_not_apply_does_not_pass(modules: Path, server: LiveServer, tmp_path: Path) -> None:
    """A scenario that begins to pass belongs among those that apply. One passes since its tool is missing."""
    found = run_scenarios(modules, server, tmp_path, V7, "--suite", "all", "--spec-version", V7)
    passing = {name for name, checks in found.items() if name in DO_NOT_APPLY and not find_troubles(checks)}
    assert passing == {f"{_INPUT}validate-input"}
