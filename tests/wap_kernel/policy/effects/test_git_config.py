"""The configuration of a new repository: what is kept makes git run nothing, whatever the file says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.change_sets import GIT
from wap_kernel.policy.effects.git_config import clean_config

KEPT = [
    "[core]\n\tbare = false\n\tlogallrefupdates = true\n",
    '[remote "origin"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    '[branch "feature/x"]\n\tremote = origin\n\tmerge = refs/heads/x\n',
    "[user]\n\tname = A B\n\temail = a@b\n",
    '[submodule "lib"]\n\tactive = true\n\turl = ../lib\n',
    "[extensions]\n\tobjectformat = sha256\n",
    "[core]\n\tbare\n",
    "",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_git_writes_stays_as_it_is(text: str) -> None:
    cleaned = clean_config(text.encode())
    assert cleaned is not None
    assert (cleaned.content.decode(), cleaned.omitted) == (text, ())


@pytest.mark.parametrize(
    ("text", "omitted"),
    [
        ("[core]\n fsmonitor = ./x\n bare = false\n", "core.fsmonitor"),
        ("[CORE] FSMonitor = ./x", "CORE.FSMonitor"),
        ("[core]\n hooksPath = x", "core.hooksPath"),
        ("[core]\n sshCommand = x", "core.sshCommand"),
        ("[core]\n worktree = ../x", "core.worktree"),
        ("[include]\n path = ../evil", "include.path"),
        ('[includeIf "gitdir:/"]\n path = ../evil', "includeIf.gitdir:/.path"),
        ('[filter "x"]\n clean = id', "filter.x.clean"),
        ("[filter.x]\n clean = id", "filter.x.clean"),
        ('[diff "x"]\n textconv = id', "diff.x.textconv"),
        ("[alias]\n st = !id", "alias.st"),
        ('[url "ext::sh"]\n insteadOf = https:', "url.ext::sh.insteadOf"),
        ('[remote "o"]\n url = ext::sh -c id', "remote.o.url"),
        ('[remote "o"]\n url = -oProxyCommand=id', "remote.o.url"),
        ('[remote "o"]\n uploadpack = id', "remote.o.uploadpack"),
        ('[branch "x"]\n remote = ext::sh', "branch.x.remote"),
        ('[submodule "x"]\n update = !id', "submodule.x.update"),
        ("[user]\n name = a\\nb", "user.name"),
        ("[credential]\n helper = !id", "credential.helper"),
    ],
)
def test_what_would_run_or_read_something_is_left_out(text: str, omitted: str) -> None:
    cleaned = clean_config(text.encode())
    assert cleaned is not None
    assert cleaned.omitted == (omitted,)


@pytest.mark.parametrize("text", ["[core", "bare = true", "[core]\n = x", '[core]\n a = "x', "[a]]", "[core]\n 1a = x"])
def test_what_cannot_be_parsed_is_no_configuration(text: str) -> None:
    assert clean_config(text.encode()) is None


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        *(("../../../lib", True), ("../../..", True), ("../../../../x", False), ("/lib", False)),
        *(("../../../../../../etc", False), ("../../../.git", False), ("../../x", False)),
    ],
)
def test_a_submodule_has_its_files_in_the_folder_of_its_repository(path: str, is_kept: bool) -> None:
    cleaned = clean_config(f"[core]\n\tworktree = {path}\n".encode(), ("top/.git/modules/lib", "top"))
    assert cleaned is not None
    assert (cleaned.omitted == ()) is is_kept


WORDS = """
    [core] [include] [remote "a"] [remote "a\\"b"] [url "x"] [core.x] [ ] fsmonitor path url insteadOf bare = ./evil
    ext::id true " \\ \\" \\n # ; \r \x00 ] é \ufeff
    """
LINES = ("\n", " ", "\t", "\\\n", "\r\n", '[remote "o"]\n', "\n[include]\n", "\npath = x\n", "\nbare = 1\n")
pieces = st.sampled_from((*WORDS.split(), *LINES))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(pieces, max_size=14).map("".join))
def test_git_reads_nothing_else_in_what_is_kept(tmp_path: Path, text: str) -> None:
    cleaned = clean_config(text.encode())
    if cleaned is None or not cleaned.content:
        return
    (tmp_path / "config").write_bytes(cleaned.content)
    words = ["git", "config", "--file", str(tmp_path / "config"), "--list", "--no-includes", "-z"]
    read = subprocess.run(words, env=GIT, check=True, capture_output=True, timeout=60).stdout.split(b"\0")
    for key, _, value in (entry.partition(b"\n") for entry in filter(None, read)):
        assert key == b"core.bare" or (key.startswith(b"remote.") and key.endswith(b".url"))
        assert not (key.startswith(b"remote.") and b"::" in value)
