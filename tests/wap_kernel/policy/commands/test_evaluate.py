"""Verdicts on commands: tables of cases in `cases/`, then what else a verdict says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.support.everyday_lines import ASKING, BLOCKED_LINES, EVERYDAY_LINES
from wap_kernel.model.policy import ShellPolicy
from wap_kernel.policy import presets
from wap_kernel.policy.commands.evaluate import evaluate_commands, evaluate_script
from wap_kernel.policy.presets import ExampleFacts
from wap_kernel.policy.shell.parser import parse_command
from wap_kernel.policy.verdict import Verdict, VerdictKind

TABLES = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "cases").glob("*.json")}


def shell_of(table: dict[str, Any]) -> ShellPolicy:
    return (
        presets.load_preset(table["preset"]).shell if "preset" in table else ShellPolicy.model_validate(table["policy"])
    )


def verdict(command: str, shell: ShellPolicy, *, confined: bool = True, layered: bool = False) -> Verdict:
    return evaluate_script(parse_command(command), shell, ExampleFacts(confined, layered=layered))


@pytest.mark.parametrize(
    ("name", "expected", "command"),
    [(name, *case) for name, table in TABLES.items() for case in table["cases"]],
)
def test_cases(name: str, expected: str, command: str) -> None:
    table = TABLES[name]
    known = {name: table[name] for name in ("confined", "layered") if name in table}
    found = verdict(command, shell_of(table), **known)
    assert found.kind.value == expected, found


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.get("confined", True)])
def test_without_a_sandbox_nothing_is_laxer(name: str) -> None:
    shell = shell_of(TABLES[name])
    for _, command in TABLES[name]["cases"]:
        confined, unconfined = verdict(command, shell), verdict(command, shell, confined=False)
        assert unconfined.kind.strictness >= confined.kind.strictness, command


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.get("confined", True)])
def test_on_a_layer_nothing_is_stricter(name: str) -> None:
    shell = shell_of(TABLES[name])
    for _, command in TABLES[name]["cases"]:
        alone, layered = verdict(command, shell), verdict(command, shell, layered=True)
        assert layered.kind.strictness <= alone.kind.strictness, command


def test_of_a_hundred_everyday_lines_at_most_ten_ask() -> None:
    assert len(set(EVERYDAY_LINES)) == 100
    kinds = {line: verdict(line, STANDARD, layered=True) for line in EVERYDAY_LINES}
    assert [line for line, found in kinds.items() if found.kind is VerdictKind.DENY] == []
    asking = {line: found.reason for line, found in kinds.items() if found.kind is VerdictKind.ASK}
    assert len(asking) <= 10, asking
    assert set(ASKING) <= set(asking)


@pytest.mark.parametrize("line", BLOCKED_LINES)
def test_what_is_blocked_is_denied_on_a_layer_too(line: str) -> None:
    assert verdict(line, STANDARD, layered=True).kind is VerdictKind.DENY


def test_a_policy_that_denies_what_is_unknown_denies_it_on_a_layer() -> None:
    for field in ("unknown", "unanalysable"):
        for unless_layered in (False, True):
            shell = ShellPolicy.model_validate({field: VerdictKind.DENY, "unless_layered": unless_layered})
            assert verdict("frob $(date)", shell, layered=True).kind is VerdictKind.DENY
        asking = ShellPolicy.model_validate({field: VerdictKind.ASK})
        assert verdict("frob $(date)", asking, layered=True).kind is VerdictKind.ASK
        lenient = ShellPolicy.model_validate({field: VerdictKind.ASK, "unless_layered": True})
        assert verdict("frob $(date)", lenient, layered=True).kind is VerdictKind.ALLOW
        assert verdict("frob $(date)", lenient).kind is VerdictKind.ASK


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("echo a line of an ordinary script", VerdictKind.ALLOW),
        ("rm -rf data", VerdictKind.ASK),
        ("rm data", VerdictKind.ALLOW),
        ("ncat example.org 80", VerdictKind.ASK),
        ("SUDO id", VerdictKind.ASK),
        ("pip install x", VerdictKind.ASK),
    ],
)
def test_a_line_that_is_too_long_asks_on_a_layer_by_its_words(words: str, answer: VerdictKind) -> None:
    line = f"x=1\n: {'a' * 20_000}\nif :; then\n{words}\nfi"
    assert not parse_command(line).whole
    assert verdict(line, STANDARD, layered=True).kind is answer
    assert verdict(line, PERMISSIVE).kind is VerdictKind.ASK


STANDARD = presets.load_preset("standard").shell
PERMISSIVE = presets.load_preset("permissive").shell


@pytest.mark.parametrize(
    "command",
    [
        "x=1\n" + "echo a line of an ordinary script\n" * 150 + "rm -rf ~\n",
        "( " * 70 + "rm -rf ~" + " )" * 70,
        "x=1; chmod -R 777 .; : " + "a" * 5000,
        "bash -c 'x=1; : " + "a" * 5000 + "'",
        "frob " + "a" * 20_000,
        "env " * 20 + "rm -rf ~",
    ],
)
def test_a_line_that_was_not_looked_at_as_a_whole_asks(command: str) -> None:
    found = verdict(command, PERMISSIVE)
    assert (found.kind, found.grantable) == (VerdictKind.ASK, False)
    assert verdict(command, ShellPolicy()).kind is VerdictKind.ALLOW  # where nothing is forbidden


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "rm ",
            "git -c ",
            "-a ",
            "$X -r ",
            "'{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}' ",
            "\"'",
            "$'\\163' ",
            "`",
            "${a:-",
        ),
        *("frob;", "rm $x; ", "\\\n", "env ", "IFS=a; ", "{", "( ", "/a? ", "a-", "'${' "),
    ],
)
@pytest.mark.parametrize("before", ["frob ", "x=1; "])
@pytest.mark.parametrize("length", [4_000, 16_000, 100_000])
def test_a_hostile_line_is_judged_in_no_time(before: str, piece: str, length: int) -> None:
    started = process_time()
    verdict(before + piece * ((length - len(before)) // len(piece)), PERMISSIVE)
    assert process_time() - started < 1


@pytest.mark.parametrize("word", ["{a..z}{a..z}{" + "," * 1000, "{" * 500 + "," * 500, "{a," * 300, "{,}" * 300])
def test_hostile_braces_are_judged_in_no_time(word: str) -> None:
    started = process_time()
    verdict(f"foo {word}", PERMISSIVE)
    verdict(f"x=1; {word}", PERMISSIVE)
    assert process_time() - started < 1


def test_what_the_callers_variables_hold_is_looked_through_once() -> None:
    line = ";".join(f"f{number} $X" for number in range(150))
    for size, expected in ((16_000, VerdictKind.ALLOW), (1_000_000, VerdictKind.ASK)):
        script = replace(parse_command(line), variable_values=("word " * (size // 5),))
        started = process_time()
        assert evaluate_script(script, PERMISSIVE, ExampleFacts(True)).kind is expected
        assert process_time() - started < 2
    for held, expected in (("sudo", VerdictKind.ASK), ("pseudo", VerdictKind.ALLOW)):
        script = replace(parse_command("frob a; $X id; other b"), variable_values=(held,))
        assert evaluate_script(script, PERMISSIVE, ExampleFacts(True)).kind is expected


LISTED = ShellPolicy(allowed_commands=("git status", "make"))


@pytest.mark.parametrize(
    ("command", "shell", "rule", "reason", "suggestion"),
    [
        (
            "ls",
            LISTED,
            "allowedCommands",
            'Command "ls" is not in allowed commands',
            "Allowed commands: git status, make",
        ),
        (
            *("/usr/bin/git push -f", LISTED, "allowedCommands"),
            *('Command "git push" is not in allowed commands', "Allowed commands: git status, make"),
        ),
        ("x; /usr/bin/sudo id", STANDARD, "blocked", "Command 'sudo' is blocked", "Remove sudo from command"),
        (
            "rm -rf /",
            STANDARD,
            "rm -r|-R|--recursive",
            "Command 'rm' is blocked",
            "Name the single folders that shall go.",
        ),
        (
            *(
                "pip install x",
                STANDARD,
                "pip install",
                'Command "pip install" needs approval by the rule "pip install"',
            ),
            None,
        ),
        ("frob", STANDARD, "unknown", 'Command "frob" is not known to the policy', None),
        ("frob init", STANDARD, "unknown", 'Command "frob" is not known to the policy', None),
        ("git init", STANDARD, "unknown", 'Command "git init" is not known to the policy', None),
        ("git -C sub init", STANDARD, "unknown", 'Command "git init" is not known to the policy', None),
        (
            *("git bisect run sudo id", PERMISSIVE, "unknown"),
            *('The command "git" names "sudo", which is blocked, and may run it', None),
        ),
        (
            *("uv run rm -r a", PERMISSIVE, "unknown"),
            *('The command "uv" names "rm -r|-R|--recursive", which needs approval, and may run it', None),
        ),
        (
            *("echo $(date)", STANDARD, "unanalysable", "The command cannot be analysed: command substitution"),
            "Write plain commands joined by && || ; | with literal words.",
        ),
    ],
)
def test_texts(command: str, shell: ShellPolicy, rule: str, reason: str, suggestion: str | None) -> None:
    found = verdict(command, shell)
    assert (found.rule, found.reason, found.suggestion) == (rule, reason, suggestion)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("frob", 'Command "frob" is not known to the policy, and no sandbox confines it'),
        ("ls ..", 'Command "ls" is allowed by the rule "ls", but may reach files outside the workspace'),
    ],
)
def test_texts_without_a_sandbox(command: str, reason: str) -> None:
    found = verdict(command, presets.load_preset("permissive").shell, confined=False)
    assert (found.rule, found.reason) == ("unconfined", reason)


@pytest.mark.parametrize(
    ("command", "network"),
    [
        ("pip install x", True),
        ("cd sub && pip install x 2>&1 | tail -3", True),
        ("timeout 60 pip install x", True),
        ("git fetch && git status", True),
        ("pip install x && python3 x.py", False),
        ("pip install x; frobnicate", False),
        ("pip install $(cat x)", False),
        ("git -c core.sshCommand=x fetch", False),
        ("python3 x.py", False),
        ("ls", False),
    ],
)
def test_the_network_is_granted_to_nothing_that_runs_code(command: str, network: bool) -> None:
    assert verdict(command, STANDARD).network is network


@pytest.mark.parametrize(
    ("command", "grantable"),
    [
        ("git push", True),
        ("frobnicate", True),
        ("rm a", True),
        ("rm -r a", False),
        ("git push && rm -r a", False),
        ("git -c a=b push", False),
        ("find $X", False),
        ("echo $(date)", False),
        ("sudo id", False),
    ],
)
def test_what_may_be_allowed_for_good(command: str, grantable: bool) -> None:
    assert verdict(command, STANDARD).grantable is grantable


def test_each_command_has_its_verdict() -> None:
    judged = evaluate_commands(parse_command("ls | timeout 5 git push"), STANDARD, ExampleFacts(True))
    assert [(each.command.words[0].text, each.verdict.kind) for each in judged] == [
        ("ls", VerdictKind.ALLOW),
        ("timeout", VerdictKind.ALLOW),
        ("git", VerdictKind.ASK),
    ]


class Nowhere(ExampleFacts):
    """No program can be relied on, as when a folder of the workspace stands first on the PATH."""

    def resolve(self, name: str, /) -> str | None:
        return None


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        *(
            ("ls", VerdictKind.ASK),
            ("/usr/bin/ls", VerdictKind.ASK),
            ("timeout 5 echo x", VerdictKind.ASK),
            ("env echo x", VerdictKind.ASK),
        ),
        *(("echo x", VerdictKind.ALLOW), ("sudo id", VerdictKind.DENY), ("rm -rf /", VerdictKind.DENY)),
    ],
)
def test_a_program_that_nobody_vouches_for_is_unknown(command: str, answer: VerdictKind) -> None:
    assert evaluate_script(parse_command(command), STANDARD, Nowhere(True)).kind is answer


class Missing(ExampleFacts):
    """Of the programs, only `timeout` and `rm` are installed."""

    def resolve(self, name: str, /) -> str | None:
        return super().resolve(name) if name in ("timeout", "rm") else None

    def is_missing(self, name: str, /) -> bool:
        return name not in ("timeout", "rm")


@pytest.mark.parametrize(
    ("command", "alone", "layered"),
    [
        ("uv add numpy", "ask", "allow"),
        ("timeout 5 uv add numpy", "ask", "allow"),
        ("gti commit -m wip", "ask", "allow"),
        ("./uv add numpy", "ask", "ask"),
        ("ssh host", "deny", "deny"),
        ("gti; sudo id", "deny", "deny"),
        ("rm -r a", "ask", "ask"),
    ],
)
def test_a_program_that_does_not_exist_asks_nobody_on_a_layer(command: str, alone: str, layered: str) -> None:
    for is_layered, answer in ((False, alone), (True, layered)):
        found = evaluate_script(parse_command(command), STANDARD, Missing(True, layered=is_layered))
        assert found.kind.value == answer
        assert not (found.kind is VerdictKind.ALLOW and found.network)


def test_wrappers_do_not_nest_for_ever() -> None:
    assert verdict("env " * 50 + "ls", STANDARD).rule == "unanalysable"
