"""What the analysis says against what really happens, for random scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random

import pytest

from tests.support.budgets import SOAK, choose_budget
from tests.support.exec_log import Execution, executed, needs_sandbox
from tests.support.shell_grammar import PLAIN_PROGRAMS, plain_script, script
from tests.support.shell_spellings import BLOCKED, blocked_script
from wap_kernel.policy import presets
from wap_kernel.policy.commands.evaluate import evaluate_script
from wap_kernel.policy.commands.program_lookup import Programs
from wap_kernel.policy.presets import ExampleFacts
from wap_kernel.policy.shell.parser import SimpleCommand, parse_command
from wap_kernel.policy.verdict import VerdictKind

ALLOWED_SCRIPTS = choose_budget(suite=100, soak=8000)
PLAIN_SCRIPTS = choose_budget(suite=100, soak=8000)
PERMITTED_SCRIPTS = choose_budget(suite=60, soak=4000)
SEED = Random().randrange(10**9) if SOAK else 3

HELPERS = frozenset({"pr", "gzip"})
"""What allowed programs start by themselves."""
WRAPPERS = frozenset("env timeout nice nohup stdbuf xargs time".split())
HOSTILE = {"X": "-exec evil {} ;", "Y": "evil", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
EVIL_NAMES = ("-exec", "-delete", "--pre=evil", "--output=o", "-oevil", "a b", "a'b", ";evil", "$(evil)")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with files whose names are options and commands."""
    folder = tmp_path / "workspace"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", *EVIL_NAMES):
        (folder / name).write_text("x a\nevil b\n")
    for name in ("evil", "ls", "git"):
        shutil.copy("/bin/true", folder / name)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    return folder


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """A folder first on the PATH, with programs that nobody may run and some that do nothing."""
    folder = tmp_path / "traps"
    folder.mkdir()
    for name in ("evil", "sudo", "curl", "p1", "p2", "p3"):
        shutil.copy("/bin/true", folder / name)
    return folder


class RealFacts(ExampleFacts):
    def __init__(self, programs: Programs, root: Path, home: str = HOSTILE["HOME"], *, layered: bool = False) -> None:
        super().__init__(confined=True, layered=layered)
        self.root = str(root)
        self.home = home
        self._programs = programs

    def resolve(self, name: str, /) -> str | None:
        return self._programs.resolve(name)

    def is_missing(self, name: str, /) -> bool:
        return self._programs.is_missing(name)


def _until(wanted: int, found: Iterator[str]) -> list[str]:
    return [next(found) for _ in range(wanted)]


@needs_sandbox
@pytest.mark.soak
def test_what_is_allowed_runs_only_allowed_programs(tmp_path: Path, workspace: Path, traps: Path) -> None:
    path = f"{traps}:/usr/bin:/bin"
    facts = RealFacts(Programs(path, untrusted=[str(workspace)]), workspace)
    shell = presets.load_preset("standard").shell
    allowed = [rule.command.split()[0] for rule in shell.rules if rule.verdict is VerdictKind.ALLOW]
    random = Random(SEED)

    def found() -> Iterator[str]:
        while True:
            text = script(random)
            if evaluate_script(parse_command(text), shell, facts).kind is VerdictKind.ALLOW:
                yield text

    scripts = _until(ALLOWED_SCRIPTS, found())
    runs = executed(scripts, tmp_path, workspace, {"PATH": path, **HOSTILE})
    assert sum(map(len, runs)) > ALLOWED_SCRIPTS / 2
    for text, programs in zip(scripts, runs, strict=True):
        for file, _ in programs:
            name = os.path.basename(file)
            known = name in HELPERS | WRAPPERS or any(fnmatchcase(name, pattern) for pattern in allowed)
            assert known and not file.startswith((str(workspace), str(traps), ".")), (SEED, text, programs)


@needs_sandbox
@pytest.mark.soak
@pytest.mark.parametrize(("preset", "layered"), [("permissive", False), ("permissive", True), ("standard", True)])
def test_what_is_permitted_is_neither_sudo_nor_the_end_of_the_home_folder(
    preset: str, layered: bool, tmp_path: Path, workspace: Path, traps: Path
) -> None:
    """Of the programs that are looked for there are copies of `true`, so nothing is deleted whatever runs."""
    for name in (*BLOCKED, "rm"):
        shutil.copy("/bin/true", traps / name)
        shutil.copy("/bin/true", workspace / name)
    home = tmp_path / "home"
    home.mkdir()
    path = f"{traps}:/usr/bin:/bin"
    facts = RealFacts(Programs(path, untrusted=[str(workspace)]), workspace, str(home), layered=layered)
    shell = presets.load_preset(preset).shell
    random = Random(SEED)
    permitted: list[str] = []
    others: list[str] = []
    while len(permitted) < PERMITTED_SCRIPTS:
        text = blocked_script(random)
        (permitted if evaluate_script(parse_command(text), shell, facts).kind is VerdictKind.ALLOW else others).append(
            text
        )
    environment = {"PATH": path, **HOSTILE, "HOME": str(home)}
    runs = executed(permitted + others[:20], tmp_path, workspace, environment)
    found = [any(_is_forbidden(each, str(home)) for each in programs) for programs in runs]
    assert [text for text, is_found in zip(permitted, found, strict=False) if is_found] == [], SEED
    assert sum(found) > 5  # the others do run what they say


def _is_forbidden(execution: Execution, home: str) -> bool:
    file, words = execution
    name, arguments = os.path.basename(file), words[1:]
    if name != "rm":
        return name in BLOCKED
    recursive = any(
        word.startswith("--r") or (word[:2] != "--" and set(word) & set("rR")) for word in arguments if word[:1] == "-"
    )
    return recursive and any(os.path.normpath(word) in ("/", home) for word in arguments)


@needs_sandbox
@pytest.mark.soak
def test_bash_reads_the_same_words(tmp_path: Path, workspace: Path, traps: Path) -> None:
    random = Random(SEED)

    def found() -> Iterator[str]:
        while True:
            text = plain_script(random)
            if not parse_command(text).problems:
                yield text

    scripts = _until(PLAIN_SCRIPTS, found())
    runs = executed(scripts, tmp_path, workspace, {"PATH": str(traps), **HOSTILE})
    compared = 0
    for text, programs in zip(scripts, runs, strict=True):
        commands = parse_command(text).commands
        if "||" not in text and all(map(_is_certain, commands)):  # what follows `||` does not run
            compared += 1
            words = Counter(tuple(word.text for word in command.words) for command in commands)
            assert Counter(words for _, words in programs) == words, (SEED, text)
    assert compared > PLAIN_SCRIPTS / 4


def _is_certain(command: SimpleCommand) -> bool:
    """A file that cannot be opened keeps a program from starting, and only literal words can be compared."""
    return (
        command.words[0].text in PLAIN_PROGRAMS
        and all(word.literal is not None for word in command.words)
        and all(redirect.target.text == "o" for redirect in command.redirects)
    )
