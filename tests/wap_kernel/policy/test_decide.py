"""Verdicts: every layer is heard, the strictest wins, and grants turn ask into allow and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.model.edits import InsertLines
from wap_kernel.model.errors import Code, PathClosed
from wap_kernel.model.git.operations import GitChange, GitTransfer
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RevertRun,
    RunCommand,
    SearchFiles,
    WriteFile,
)
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import (
    CommandRule,
    EffectsPolicy,
    FilesystemPolicy,
    Grant,
    NetworkPolicy,
    Policy,
    ShellPolicy,
)
from wap_kernel.policy import presets
from wap_kernel.policy.decide import Facts, Verdict, VerdictKind, decide, judge
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

PROGRAMS = {name: f"/usr/bin/{name}" for name in "git ls cat echo rm pip sudo python sort".split()}
PROTECTED = ProtectedPaths(hidden=frozenset({("run",)}), read_only=frozenset({(".bashrc",)}))


def facts(operation: Operation, *, confined: bool = True, size: int | None = None, **more: bool) -> Facts:
    return Facts(
        accesses=operation.path_accesses(),
        confined=confined,
        **more,  # type: ignore[arg-type]
        resolve=lambda name: PROGRAMS.get(name) or (name if name in PROGRAMS.values() else None),
        home="/home/u",
        root="/home/u/ws",
        size=size,
        protected=PROTECTED,
    )


def verdict(operation: Operation, *layers: Policy, grants: tuple[Grant, ...] = (), **known: Any) -> Verdict:
    return decide(operation, EffectivePolicy(layers), facts(operation, **known), grants)


def run(command: str, **more: Any) -> RunCommand:
    return RunCommand(command=command, **more)


def files(**fields: Any) -> Policy:
    return Policy(name="layer", filesystem=FilesystemPolicy(**fields))


def shell(**fields: Any) -> Policy:
    return Policy(name="layer", shell=ShellPolicy(**fields))


def rule(command: str, answer: str, **more: Any) -> CommandRule:
    return CommandRule(command=command, verdict=VerdictKind(answer), **more)


def write(path: str = "a.txt", content: bytes = b"12345", **more: Any) -> WriteFile:
    return WriteFile(path=path, content=content, **more)


def insert(text: str) -> ModifyFile:
    return ModifyFile(path="a", edits=(InsertLines(after_line=0, new_content=text),))


def effects(**fields: Any) -> Policy:
    return Policy(name="layer", effects=EffectsPolicy(**fields))


READ_ONLY, CLOSED = files(access="read"), files(access="none")
DENYING = files(denied_paths=("*.env",), read_only_paths=("raw/**",))
EXAM = files(allowed_paths=("exam/**",))
PLACED = files(denied_paths=("conf/prod.yml",))
UNCONFINED = DENYING.model_copy(update={"shell": ShellPolicy(unconfined=VerdictKind.ASK)})
PERMISSIVE = presets.load_preset("permissive")
DVC = shell(rules=(rule("dvc status", "allow"),), unknown=VerdictKind.ASK)
SMALL = files(max_file_size=10, max_edit_size=4)
SIZE = Code.SIZE_LIMIT_EXCEEDED
LAYERED, SHARED = {"layered": True}, {"by_agent": True}
STANDARD = presets.load_preset("standard")
OBEYED = effects(obeyed_files=(".vscode", "*.rc"))
ASKING = shell(rules=(rule("git push", "ask", network=True),))

CASES: list[tuple[Operation, Policy, dict[str, Any], str, str]] = [
    # operation, layer, what is known, answer, rule
    (ReadFile(path="a"), Policy(), {}, "allow", "default"),
    (ReadFile(path="a"), Policy(broken="x"), {}, "deny", "broken policy"),
    (DescribeWorkspace(), Policy(broken="x"), {}, "deny", "broken policy"),
    (ReadFile(path="a"), READ_ONLY, {}, "allow", "default"),
    (write(), READ_ONLY, {}, "deny", "filesystem.access"),
    (DeleteFile(path="a"), READ_ONLY, {}, "deny", "filesystem.access"),
    (MoveFile(source="a", destination="b"), READ_ONLY, {}, "deny", "filesystem.access"),
    (CopyFile(source="a", destination="b"), READ_ONLY, {}, "deny", "filesystem.access"),
    (CreateDirectory(path="a"), READ_ONLY, {}, "deny", "filesystem.access"),
    (ListFiles(path="."), CLOSED, {}, "deny", "filesystem.access"),
    (ReadFile(path="run/x"), Policy(), {}, "deny", "protected"),
    (write(".bashrc"), Policy(), {}, "deny", "protected"),
    (ReadFile(path="x/.env"), DENYING, {}, "deny", "layer: *.env"),
    (CopyFile(source="x/.env", destination="b"), DENYING, {}, "deny", "layer: *.env"),
    (MoveFile(source="a", destination="b.env"), DENYING, {}, "deny", "layer: *.env"),
    (SearchFiles(paths=("a", "b.env"), query="x"), DENYING, {}, "deny", "layer: *.env"),
    (ReadFile(path="raw/x"), DENYING, {}, "allow", "default"),
    (write("raw/x"), DENYING, {}, "deny", "layer: raw/**"),
    (ListFiles(path="src"), files(allowed_paths=("src/*.py",)), {}, "allow", "default"),
    (ReadFile(path="src"), files(allowed_paths=("src/*.py",)), {}, "deny", "layer: allowedPaths"),
    (ReadFile(path="a"), SMALL, {"size": 10}, "allow", "default"),
    (ReadFile(path="a"), SMALL, {"size": 11}, "deny", "maxFileSize"),
    (CopyFile(source="a", destination="b"), SMALL, {"size": 11}, "deny", "maxFileSize"),
    (insert("x"), SMALL, {"size": 11}, "deny", "maxFileSize"),
    (insert("éé"), SMALL, {"size": 3}, "allow", "default"),
    (insert("ééé"), SMALL, {"size": 3}, "deny", "maxEditSize"),
    (write(content=b"1234"), SMALL, {}, "allow", "default"),
    (write(), SMALL, {}, "deny", "maxEditSize"),
    (write(content=b"12345678901"), SMALL, {}, "deny", "maxFileSize"),
    (write(content=b"12", mode="append"), SMALL, {"size": 9}, "deny", "maxFileSize"),
    (write(content=b"12"), SMALL, {"size": 900}, "allow", "default"),
    (run("ls"), shell(enabled=False), {}, "deny", "shell.enabled"),
    (run("ls"), shell(allowed_commands=("git",)), {}, "deny", "allowedCommands"),
    (run("git status"), shell(allowed_commands=("git",)), {}, "allow", "default"),
    (run("sudo id"), shell(blocked_commands=("sudo",)), {}, "deny", "blocked"),
    (run("git push"), ASKING, {}, "ask", "git push"),
    (run("ls", environment={"A": "1"}), shell(env_allowlist=("A",)), {}, "allow", "default"),
    (run("ls", environment={"B": "1"}), shell(env_allowlist=("A",)), {}, "deny", "envAllowlist"),
    (run("ls", environment={"B": "1"}), shell(env_allowlist=()), {}, "deny", "envAllowlist"),
    (run("ls", cwd="x.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("echo x > a.txt"), DENYING, {}, "allow", "default"),
    (run("echo x > sub/../.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("sort < .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("echo x > x", cwd="raw"), DENYING, {}, "deny", "layer: raw/**"),
    (run("echo x > ~/ws/.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("echo x > .bashrc"), Policy(), {}, "deny", "protected"),
    (run("echo x >> out"), READ_ONLY, {}, "deny", "filesystem.access"),
    (run("echo x > /dev/null"), READ_ONLY, {}, "allow", "default"),
    (run("echo x > /etc/x"), shell(unanalysable=VerdictKind.ASK), {}, "ask", "redirection"),
    (run("echo x > ../x"), shell(unanalysable=VerdictKind.ASK), {}, "ask", "redirection"),
    (run("echo x > $X"), shell(unanalysable=VerdictKind.ASK), {}, "ask", "unanalysable"),
    (run("echo x > ~/x"), shell(unanalysable=VerdictKind.DENY), {}, "deny", "redirection"),
    (run("echo x > ~/x"), shell(unconfined=VerdictKind.ASK), {"confined": False}, "ask", "unconfined"),
    (run("sort < /etc/x"), shell(unanalysable=VerdictKind.ASK), {}, "allow", "default"),
    (run("cat .env"), DENYING, {}, "allow", "default"),  # a sandbox masks it
    (run("git show HEAD:.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git cat-file -p main:sub/x.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git show :0:.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git show ':/.env'"), DENYING, {}, "deny", "layer: *.env"),
    (run("ls; env git log -p -- .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git diff HEAD:a.txt"), DENYING, {}, "allow", "default"),
    (run("git blame .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git checkout HEAD~1 -- .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git log -p .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git diff HEAD .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git archive HEAD .env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git log -L1,5:.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git log -L 1,5:.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git log -p -- ':(top).env'"), DENYING, {}, "deny", "layer: *.env"),
    (run("git log -p -- ':(exclude).env' ':!x.env' a"), DENYING, {}, "allow", "default"),
    (run("git show HEAD:conf/prod.yml", cwd="sub/deep"), PLACED, {}, "deny", "layer: conf/prod.yml"),
    (run("cd conf && git show HEAD:./prod.yml"), PLACED, {}, "deny", "layer: conf/prod.yml"),
    (run("git -C conf show HEAD:./prod.yml"), PLACED, {}, "deny", "layer: conf/prod.yml"),
    (run("git -C sub/deep show HEAD:../../conf/prod.yml"), PLACED, {}, "deny", "layer: conf/prod.yml"),
    (run("git show HEAD:prod.yml"), PLACED, {}, "allow", "default"),
    (run("; ".join(["cd a", "cd b", "cd .."] * 60) + "; git show HEAD:.env"), DENYING, {}, "deny", "layer: *.env"),
    (run("git show HEAD"), EXAM, {}, "allow", "default"),
    (run("git log -p main~2..v1.0 --stat"), EXAM, {}, "allow", "default"),
    (run("git diff HEAD -- exam/a.py"), EXAM, {}, "allow", "default"),
    (run("git diff HEAD -- a.py"), EXAM, {}, "deny", "layer: allowedPaths"),
    (run("git show HEAD:a.py"), EXAM, {}, "deny", "layer: allowedPaths"),
    (run("cd exam/sub && git show HEAD:exam/a.py"), EXAM, {}, "allow", "default"),
    (run("git diff --text"), DENYING, {}, "ask", "deniedPaths"),
    (run("git log -pa"), DENYING, {}, "ask", "deniedPaths"),
    (run("git show --binary HEAD"), DENYING, {}, "ask", "deniedPaths"),
    (run("git grep -na x"), DENYING, {}, "ask", "deniedPaths"),
    (run("git cat-file --batch"), DENYING, {}, "ask", "deniedPaths"),
    (run("git cat-file --batch='%(objectname)' --buffer"), DENYING, {}, "ask", "deniedPaths"),
    (run("git cat-file --batch-command"), DENYING, {}, "ask", "deniedPaths"),
    (run("git cat-file --batch-all-objects --batch-check"), DENYING, {}, "ask", "deniedPaths"),
    (run("git cat-file --batch-check='%(objecttype)'"), DENYING, {}, "allow", "default"),
    (run("git cat-file --batch"), Policy(), {}, "allow", "default"),
    (run("git log -Sdata -n5 --oneline"), DENYING, {}, "allow", "default"),
    (run("git diff --text"), Policy(), {}, "allow", "default"),
    (run("git commit -am x"), DENYING, {}, "allow", "default"),
    (run("git grep .env"), DENYING, {}, "allow", "default"),
    (run("git log -S .env"), DENYING, {}, "allow", "default"),
    (run("git commit -m 'Ignore .env'"), DENYING, {}, "allow", "default"),
    (run("git commit -m 'fix: rotate .env'"), DENYING, {}, "allow", "default"),
    (run("git commit -m '.env'"), DENYING, {}, "allow", "default"),
    (run("git log --grep=.env"), DENYING, {}, "allow", "default"),
    (run("git checkout -b x.env"), DENYING, {}, "allow", "default"),
    (run("git tag v1.env"), DENYING, {}, "allow", "default"),
    (run("grep -rn git .env"), DENYING, {}, "allow", "default"),
    (run("echo git show HEAD:.env"), DENYING, {}, "allow", "default"),
    (run("git show HEAD:.git/config"), files(denied_paths=(".git/**",)), {}, "allow", "default"),
    (run("cat .env"), UNCONFINED, {"confined": False}, "ask", "unconfined"),
    (run("cat sub/../.env"), UNCONFINED, {"confined": False}, "ask", "unconfined"),
    (run("grep --file=.env x"), UNCONFINED, {"confined": False}, "ask", "unconfined"),
    (run("cd sub && echo x > .env"), DENYING, {}, "allow", "default"),
    (run("cd sub && echo x > y"), shell(unanalysable=VerdictKind.ASK), {}, "ask", "unanalysable"),
    (run("$X id", environment={"X": "sudo"}), PERMISSIVE, {}, "ask", "unknown"),
    (run("$X -rf ~", environment={"X": "rm"}), PERMISSIVE, {}, "ask", "unknown"),
    (run("rm $X ~", environment={"X": "-rf"}), PERMISSIVE, {}, "ask", "rm -r|-R|--recursive"),
    (run('eval "$X"', environment={"X": "rm -rf ~"}), PERMISSIVE, {}, "ask", "unknown"),
    (run("./frob", environment={"X": "sudo id"}), PERMISSIVE, {}, "ask", "unknown"),
    (run("./frob -r", environment={"X": "1"}), PERMISSIVE, {}, "allow", "default"),
    (run("sh", args=("-c", "$0 -rf ~", "rm")), PERMISSIVE, {}, "ask", "unknown"),
    (run("ls"), Policy(confirmation_required=("runCommand",)), {}, "ask", "confirmationRequired"),
    (run("ls"), Policy(confirmation_required=("executeCommand",)), {}, "ask", "confirmationRequired"),
    (run("ls"), Policy(confirmation_required=("task.run",)), {}, "ask", "confirmationRequired"),
    (write(), Policy(confirmation_required=("writeFile",)), {}, "ask", "confirmationRequired"),
    (insert("x"), Policy(confirmation_required=("writeFile",)), {}, "ask", "confirmationRequired"),
    (write(), Policy(confirmation_required=("modifyFile",)), {}, "allow", "default"),
    *(
        (RevertRun(run="run_1"), Policy(confirmation_required=(tool,)), {}, "ask", "confirmationRequired")
        for tool in ("writeFile", "createFile", "write", "modifyFile", "editFile", "edit", "deleteFile")
    ),
    (RevertRun(run="run_1"), Policy(confirmation_required=("runCommand", "readFile")), {}, "allow", "default"),
    # files that other programs obey
    (write(".vscode/tasks.json"), OBEYED, {}, "ask", "effects.obeyedFiles"),
    (write("sub/.VSCode/x"), OBEYED, {}, "ask", "effects.obeyedFiles"),
    (write(".vscode/x"), DENYING, {}, "allow", "default"),
    (ReadFile(path=".vscode/tasks.json"), OBEYED, {}, "allow", "default"),
    (
        DeleteFile(path="data", recursive=True),
        effects(max_deletions=100),
        {"deletes": 101},
        "ask",
        "effects.maxDeletions",
    ),
    (DeleteFile(path="data", recursive=True), effects(max_deletions=100), {"deletes": 100}, "allow", "default"),
    (DeleteFile(path="data", recursive=True), effects(), {"deletes": 101}, "allow", "default"),
    (DeleteFile(path="a.rc"), OBEYED, {}, "ask", "effects.obeyedFiles"),
    (MoveFile(source="a", destination=".vscode"), OBEYED, {}, "ask", "effects.obeyedFiles"),
    (CopyFile(source=".vscode/a", destination="b"), OBEYED, {}, "allow", "default"),
    (CreateDirectory(path=".vscode"), OBEYED, {}, "ask", "effects.obeyedFiles"),
    (write(".vscode/.bashrc"), STANDARD, {}, "ask", "effects.obeyedFiles"),
    (write(".vscode/x.pem"), STANDARD, {}, "deny", "standard: *.pem"),
    # on a layer the effect of a redirection is judged
    (run("echo x > .env"), DENYING, LAYERED, "allow", "default"),
    (run("echo x > raw/a"), DENYING, LAYERED, "allow", "default"),
    (run("echo x > .bashrc"), Policy(), LAYERED, "allow", "default"),
    (run("sort < .env"), DENYING, LAYERED, "deny", "layer: *.env"),
    (run("git show HEAD:.env"), DENYING, LAYERED, "deny", "layer: *.env"),
    (run("git diff --text"), DENYING, LAYERED, "ask", "deniedPaths"),
    (run("echo x > /etc/x"), STANDARD, LAYERED, "allow", "default"),
    (run("echo x > /etc/x"), shell(unanalysable=VerdictKind.ASK), LAYERED, "ask", "redirection"),
    # commands that share the workspace
    (run("ls", isolation="shared"), STANDARD, SHARED, "ask", "shell.shared"),
    (run("ls", isolation="shared"), STANDARD, {}, "allow", "default"),
    (run("ls", isolation="shared"), PERMISSIVE, SHARED, "allow", "default"),
    (run("ls", isolation="shared"), shell(shared=VerdictKind.DENY), SHARED, "deny", "shell.shared"),
    (run("ls"), STANDARD, SHARED, "allow", "default"),
    (run("ls $(ls)", isolation="shared"), STANDARD, LAYERED, "ask", "unanalysable"),
    (run("rm a"), STANDARD, LAYERED, "allow", "default"),
    (run("rm -r a"), STANDARD, LAYERED, "ask", "rm -r|-R|--recursive"),
    (ListFiles(path="."), Policy(confirmation_required=("listFiles",)), {}, "ask", "confirmationRequired"),
    (ReadFile(path="a"), Policy(confirmation_required=("runCommand",)), {}, "allow", "default"),
]


@pytest.mark.parametrize(("operation", "layer", "known", "answer", "by"), CASES)
def test_one_layer(operation: Operation, layer: Policy, known: dict[str, Any], answer: str, by: str) -> None:
    found = verdict(operation, layer, **known)
    assert (found.kind.value, found.rule) == (answer, by)
    assert found.code is (SIZE if by in ("maxFileSize", "maxEditSize") else Code.PERMISSION_DENIED)


TEXTS = [
    (write(), READ_ONLY, "Filesystem is read-only", None),
    (ReadFile(path=".env"), DENYING, 'Path ".env" is denied by policy', 'It matches "*.env" in deniedPaths of layer.'),
    (run("ls"), shell(enabled=False), "Shell is disabled", None),
    (
        run("ls"),
        shell(allowed_commands=("git", "npm test")),
        'Command "ls" is not in allowed commands',
        "Allowed commands: git, npm test",
    ),
    (run("sudo id"), shell(blocked_commands=("sudo",)), "Command 'sudo' is blocked", "Remove sudo from command"),
    (run("dvc status"), DVC, 'Program "dvc" was not found among the installed programs', None),
    (run("./dvc status"), DVC, 'Command "dvc status" is not known to the policy', None),
    (run("dvc push"), DVC, 'Command "dvc push" is not known to the policy', None),
    (
        run("git -C conf show HEAD:./prod.yml"),
        files(denied_paths=("conf/**",)),
        'Path "conf/prod.yml" is denied by policy',
        'It matches "conf/**" in deniedPaths of layer.',
    ),
    (
        ReadFile(path="a"),
        Policy(name="p.json", broken="line 1, column 2: oops"),
        "The policy p.json cannot be used: line 1, column 2: oops",
        "Everything is refused until it is corrected.",
    ),
]


@pytest.mark.parametrize(("operation", "layer", "reason", "suggestion"), TEXTS)
def test_texts(operation: Operation, layer: Policy, reason: str, suggestion: str | None) -> None:
    found = verdict(operation, layer)
    assert (found.reason, found.suggestion) == (reason, suggestion)


def test_a_file_that_is_too_large_to_be_read_can_be_shown_in_parts() -> None:
    assert "sed -n 1,100p" in (verdict(ReadFile(path="a"), SMALL, size=11).suggestion or "")
    assert "sed" not in (verdict(write(content=b"12345678901"), SMALL).suggestion or "")


NO_PREVIEW = shell(preview=False)


@pytest.mark.parametrize(
    ("operation", "layers", "known", "previewable"),
    [
        (run("rm -r a"), [STANDARD], LAYERED, True),
        (run("rm -r a && git clean -f"), [STANDARD], LAYERED, True),
        (run("rm -r a"), [PERMISSIVE], LAYERED, True),
        (run("echo 'rm -r a' | sh"), [STANDARD], LAYERED, True),
        (run("frob"), [shell(unknown=VerdictKind.ASK)], LAYERED, True),
        (run("ls $(id)"), [shell(unanalysable=VerdictKind.ASK)], LAYERED, True),
        (run("rm -r a"), [STANDARD], {}, False),
        (run("rm -r a", isolation="shared"), [STANDARD], LAYERED, False),
        (run("rm -r a"), [STANDARD, NO_PREVIEW], LAYERED, False),
        (run("pip install x"), [STANDARD], LAYERED, False),
        (run("rm -r a && pip install x"), [STANDARD], LAYERED, False),
        (run("echo 'pip install x' | sh"), [STANDARD], LAYERED, False),
        (run("echo 'sudo id' | sh"), [STANDARD], LAYERED, False),
        (run("/usr/bin/sud? id"), [STANDARD], LAYERED, False),
        (run("rm -r a"), [STANDARD, Policy(confirmation_required=("runCommand",))], LAYERED, False),
        (run("git diff --text; rm -r a"), [STANDARD], LAYERED, False),
        (run("sudo id"), [STANDARD], LAYERED, False),
        (run("ls"), [STANDARD], LAYERED, False),
        (write(".vscode/x"), [STANDARD], {}, False),
    ],
)
def test_what_may_run_on_a_layer_before_a_person_decides(
    operation: Operation, layers: list[Policy], known: dict[str, Any], previewable: bool
) -> None:
    assert verdict(operation, *layers, **known).previewable is previewable


def test_the_warning_of_a_destructive_command_comes_first() -> None:
    found = verdict(run("pip install x && rm -r a"), STANDARD, layered=True)
    assert (found.kind, found.reason) == (VerdictKind.ASK, "Destructive command requires approval")


def test_the_reason_to_ask_about_sharing_says_that_nothing_is_undone() -> None:
    found = verdict(run("npm run dev", isolation="shared"), STANDARD, by_agent=True)
    assert "cannot be undone" in found.reason and not found.grantable


def test_a_change_of_an_obeyed_file_can_be_allowed_for_good() -> None:
    operation = write(".vscode/tasks.json")
    found = judge(operation, EffectivePolicy((STANDARD,)), facts(operation))
    assert found.grant is not None
    assert verdict(operation, STANDARD, grants=(found.grant,)).rule == "grant"


def test_a_workspace_may_only_narrow() -> None:
    widening = Policy(
        filesystem=FilesystemPolicy(access="read-write", allowed_paths=("**/*",), max_file_size=1 << 40),
        shell=ShellPolicy(enabled=True, allowed_commands=("ls", "sudo"), rules=(rule("sudo", "allow"),)),
    )
    strict = Policy(
        filesystem=FilesystemPolicy(access="read", denied_paths=("*.env",), max_file_size=1),
        shell=ShellPolicy(blocked_commands=("sudo",)),
    )
    for operation in (write(), ReadFile(path=".env"), run("sudo id")):
        assert verdict(operation, strict, widening).kind is VerdictKind.DENY
    assert verdict(ReadFile(path="a"), strict, widening, size=2).kind is VerdictKind.DENY


@pytest.mark.parametrize(
    ("layers", "command", "network"),
    [
        ([Policy()], "ls", True),
        ([Policy(network=NetworkPolicy(access="none"))], "ls", False),
        ([ASKING.model_copy(update={"network": NetworkPolicy(access="none")})], "git push", True),
        ([ASKING.model_copy(update={"network": NetworkPolicy(access="none")})], "git push && ls", False),
        ([ASKING, Policy(network=NetworkPolicy(access="none"))], "git push", False),
    ],
)
def test_who_gets_the_network(layers: list[Policy], command: str, network: bool) -> None:
    found = verdict(run(command), *layers)
    assert found.network is network
    if found.kind is VerdictKind.ASK:  # who decides is told the same
        assert found.suggestion is not None and ("no network" in found.suggestion) is not network


def test_the_servers_own_git_is_judged_as_without_a_layer() -> None:
    operations = (GitTransfer(action="push", url="https://example.org/a"), GitChange(action="commit"))
    for operation in operations:
        alone, layered = verdict(operation, STANDARD), verdict(operation, STANDARD, layered=True)
        assert alone == layered


# -- laws

CONFIRMING = Policy(confirmation_required=("writeFile", "runCommand", "moveFile"))
answers = st.sampled_from(list(VerdictKind))
words = st.sampled_from(["ls", "git", "git push", "rm", "sudo", "python"])
globs = st.sampled_from(["*.env", "src/**", "a", "**/x/*", "!a", "*"])
selecting = st.sampled_from(["**/*", "src/**", "*.txt", "src/*.py"])
rules = st.builds(
    CommandRule,
    command=words,
    verdict=answers,
    having=st.sampled_from([(), ("-r",)]),
    runs_code=st.booleans(),
    network=st.booleans(),
    grantable=st.booleans(),
    unless_layered=st.booleans(),
)
policies = st.builds(
    Policy,
    filesystem=st.builds(
        FilesystemPolicy,
        access=st.sampled_from(["none", "read", "read-write", "read-write", "read-write"]),
        max_file_size=st.none() | st.integers(1, 20),
        max_edit_size=st.none() | st.integers(1, 20),
        allowed_paths=st.none() | st.lists(selecting, max_size=2).map(tuple),
        denied_paths=st.lists(globs, max_size=2).map(tuple),
        read_only_paths=st.lists(globs, max_size=2).map(tuple),
    ),
    shell=st.builds(
        ShellPolicy,
        enabled=st.sampled_from([True, True, True, False]),
        allowed_commands=st.none() | st.lists(words, max_size=3).map(tuple),
        blocked_commands=st.lists(words, max_size=1).map(tuple),
        rules=st.lists(rules, max_size=3).map(tuple),
        unknown=answers,
        unanalysable=answers,
        unconfined=answers,
        env_allowlist=st.none() | st.just(("A",)),
        unless_layered=st.booleans(),
        shared=answers,
        preview=st.booleans(),
    ),
    effects=st.builds(EffectsPolicy, obeyed_files=st.lists(globs, max_size=2).map(tuple)),
    network=st.builds(NetworkPolicy, access=st.sampled_from(["none", "full"])),
    confirmation_required=st.lists(st.sampled_from(["runCommand", "writeFile", "readFile"]), max_size=1).map(tuple),
    broken=st.sampled_from([None] * 9 + ["why"]),
)
OPERATIONS: list[Operation] = [
    *(ReadFile(path=path) for path in ("a", "src/b.py", "x.env", "q/x/y")),
    *(write(path, bytes(8)) for path in ("a", "src/b.py", "c.txt")),
    *(ListFiles(path="src"), MoveFile(source="a", destination="src/z"), insert("some text"), DescribeWorkspace()),
    *map(run, ("ls", "git push", "git push --force", "rm -r a", "ls; sudo x", "ls $(rm a)", "ls > a", "X=1 ls")),
    run("ls", environment={"B": "1"}),
    run("ls", isolation="shared"),
]
GRANTS = tuple(
    grant
    for operation in OPERATIONS
    if (grant := judge(operation, EffectivePolicy((CONFIRMING,)), facts(operation)).grant) is not None
)
CONFINEMENTS = ({}, {"confined": False}, LAYERED, {**LAYERED, **SHARED})
Question = tuple[Operation, dict[str, Any], tuple[Grant, ...]]
questions = st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(CONFINEMENTS), st.sampled_from([(), GRANTS]))


@given(st.lists(policies, max_size=3), policies, questions)
def test_one_more_layer_never_makes_a_verdict_laxer(layers: list[Policy], more: Policy, question: Question) -> None:
    operation, known, grants = question
    before = verdict(operation, *layers, grants=grants, size=8, **known)
    effective = EffectivePolicy(tuple(layers)).with_layer(more)
    after = decide(operation, effective, facts(operation, size=8, **known), grants)
    assert after.kind.strictness >= before.kind.strictness
    assert before.network or not after.network
    if before.kind is after.kind is VerdictKind.ASK:
        assert before.grantable or not after.grantable


@given(st.lists(policies, min_size=2, max_size=3), st.randoms(), questions)
def test_the_order_of_layers_does_not_change_the_answer(layers: list[Policy], random: Any, question: Question) -> None:
    operation, known, grants = question
    shuffled = random.sample(layers, len(layers))
    one, other = (verdict(operation, *each, grants=grants, size=8, **known) for each in (layers, shuffled))
    assert (one.kind, one.network, one.grantable) == (other.kind, other.network, other.grantable)


@given(st.lists(policies, max_size=3), questions)
def test_grants_only_turn_ask_into_allow(layers: list[Policy], question: Question) -> None:
    operation, known, _ = question
    before = verdict(operation, *layers, **known)
    after = verdict(operation, *layers, grants=GRANTS, **known)
    assert after.kind is before.kind or (before.kind, after.kind) == (VerdictKind.ASK, VerdictKind.ALLOW)


# -- the fast path

GUARDED = [
    files(),
    READ_ONLY,
    CLOSED,
    DENYING,
    EXAM,
    files(max_file_size=3),
    files(max_edit_size=3),
    Policy(name="asking", confirmation_required=("moveFile",)),
    Policy(name="broken", broken="it is no JSON"),
    shell(enabled=False),
    OBEYED,
]
PATHS = [".vscode/a", "a.rc", "a.txt", "x.env", "raw/a", "exam/a", "run/token", ".bashrc", ".git/config", "exam"]


@given(
    layers=st.lists(st.sampled_from(GUARDED), max_size=4),
    path=st.sampled_from(PATHS),
    content=st.sampled_from([None, b"12", b"12345"]),
    size=st.sampled_from([None, 2, 5]),
)
def test_where_only_the_guard_decides_a_verdict_is_that_of_the_guard_the_sizes_and_the_obeyed_files(
    layers: list[Policy], path: str, content: bytes | None, size: int | None
) -> None:
    policy = EffectivePolicy(tuple(layers))
    operation = ReadFile(path=path) if content is None else write(path, content, mode="create")
    asks = {layer.name for layer in layers} & {"asking", "broken"}
    assert policy.only_guard_decides is not bool(asks)
    if asks:
        return
    guard = PolicyGuard(PROTECTED, policy)
    try:
        guard.check(path, Access.READ if content is None else Access.WRITE)
        is_refused = False
    except PathClosed:
        is_refused = True
    limits = policy.max_file_size, policy.max_edit_size
    sizes = ((size or 0) if content is None else len(content), 0 if content is None else len(content))
    is_too_large = any(limit is not None and each > limit for limit, each in zip(limits, sizes, strict=True))
    found = decide(operation, policy, facts(operation, size=size if content is None else None))
    asks_about_it = content is not None and policy.find_obeyed(path) is not None
    expected = VerdictKind.ASK if asks_about_it else VerdictKind.ALLOW
    assert found.kind is (VerdictKind.DENY if is_refused or is_too_large else expected)
