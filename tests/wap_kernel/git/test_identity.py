"""The identity of commits: which source counts, and what is read of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git_repository import BOT
from tests.support.tool_interface import AGENT, Interface, opened
from wap_kernel.git.identity import describe_caller, parse_author, read_global_config
from wap_kernel.git.settings import GitSettings
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, InvalidArgument
from wap_kernel.model.git.results import Person

GLOBAL = "[user]\n\tname = Grace\n\temail = grace@example.org\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture(params=["local", "bubblewrap"])
def tools(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[Interface]:
    with opened(tmp_path, provider=request.param, git=GitSettings()) as tools:
        tools.repository()
        yield tools


def commit(tools: Interface, **fields: str) -> dict[str, str]:
    tools.file("a.txt", tools.file("a.txt").name + str(len(tools.said)))
    answer = tools("git", action="commit", message="m", files=["a.txt"], **fields)
    assert answer["exit_code"] == 0, answer
    author: dict[str, str] = answer["author"]
    return author


def test_the_first_source_that_names_one_counts(tools: Interface, home: Path) -> None:
    assert commit(tools) == {"name": "opencode", "email": "opencode@noreply.invalid"}
    (home / ".gitconfig").write_text("[user]\n\tname = Grace\n")
    assert commit(tools) == {"name": "Grace", "email": "opencode@noreply.invalid"}
    (home / ".gitconfig").write_text(GLOBAL)
    assert commit(tools) == {"name": "Grace", "email": "grace@example.org"}
    tools.git("config", "user.email", "own@example.org")
    assert commit(tools) == {"name": "Grace", "email": "own@example.org"}
    tools.git("config", "user.name", "Own")
    assert commit(tools) == {"name": "Own", "email": "own@example.org"}
    asked = commit(tools, author="Ada L <ada@example.org>")
    assert asked == {"name": "Ada L", "email": "ada@example.org"}
    assert tools.git("log", "-1", "--format=%cn %ce").strip() == "Ada L ada@example.org"


def test_the_setting_beats_every_configuration(tmp_path: Path, home: Path) -> None:
    (home / ".gitconfig").write_text(GLOBAL)
    with opened(tmp_path, git=GitSettings(identity=BOT)) as tools:
        tools.repository()
        tools.git("config", "user.name", "Own")
        assert commit(tools) == {"name": BOT.name, "email": BOT.email}
        assert commit(tools, author="Ada <a@b>") == {"name": "Ada", "email": "a@b"}


def test_nothing_but_name_and_address_is_read(home: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (home / "more").write_text("[user]\n\tname = Included\n")
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text(GLOBAL)
    (home / ".gitconfig").write_text(
        f"[include]\n\tpath = {home}/more\n[core]\n\tpager = touch {ran}\n\tfsmonitor = touch {ran}\n"
        f'[alias]\n\tconfig = !touch {ran}\n[user]\n\temail = "grace <x>\\n@home"\n\tsigningkey = secret\n'
    )
    assert read_global_config({"HOME": str(home), "PATH": "/usr/bin:/bin"}) == {
        "user.name": "Grace",
        "user.email": "grace x@home",
    }
    assert not ran.exists()


@pytest.mark.parametrize("content", [b"[user\n\tname = x", b"\xff\xfe\0", b"[user]\n\tname =\n", None])
def test_a_configuration_that_cannot_be_read_names_none(home: Path, content: bytes | None) -> None:
    if content is None:
        (home / ".gitconfig").mkdir()
    else:
        (home / ".gitconfig").write_bytes(content)
    assert read_global_config({"HOME": str(home), "PATH": "/usr/bin:/bin"}) == {}


@pytest.mark.parametrize(
    ("caller", "person"),
    [
        (AGENT, Person("opencode", "opencode@noreply.invalid")),
        (Caller(user="ada@hub"), Person("ada@hub", "ada-hub@noreply.invalid")),
        (Caller(user="Ada <x>\n"), Person("Ada  x", "Ada-x@noreply.invalid")),
        (Caller(user="..."), Person("wap", "wap@noreply.invalid")),
    ],
)
def test_a_caller_has_an_address_that_takes_no_mail(caller: Caller, person: Person) -> None:
    assert describe_caller(caller) == person


@pytest.mark.parametrize("text", ["Ada", "<a@b>", "Ada <>", "Ada <a@b> x", "A\nB <a@b>", "Ada <a b>", ". <a@b>"])
def test_an_author_needs_name_and_address(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_author(text)


def test_author_belongs_to_commits(tools: Interface) -> None:
    assert tools.refuse("git", action="status", author="Ada <a@b>").code is Code.INVALID_ARGUMENT
    assert tools.refuse("git", action="commit", message="m", author="Ada").code is Code.INVALID_ARGUMENT


# -- what a commit takes along and leaves behind


def staged(tools: Interface) -> list[str]:
    return tools.git("diff", "--cached", "--name-only").split()


def test_files_commits_only_those(tools: Interface) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        tools.file(name, name)
    tools.git("add", "b.txt")
    answer = tools("git", action="commit", message="m", files=["a.txt"])
    assert (answer["exit_code"], answer["files"]) == (0, 1)
    assert tools.git("show", "--name-only", "--format=").split() == ["a.txt"]
    assert staged(tools) == ["b.txt"]
    status = tools("git", action="status")
    assert (status["staged"], status["untracked"]) == (
        [{"path": "/workspace/b.txt", "kind": "added"}],
        ["/workspace/c.txt"],
    )
    assert not [name for name in (tools.root / ".git").iterdir() if "wap" in name.name]


def test_a_first_commit_of_a_file(tools: Interface) -> None:
    tools.file("new/a.txt", "1")
    tools.file("new/b.txt", "2")
    tools.git("init", "--quiet", "new")
    answer = tools("git", action="commit", message="m", files=["/workspace/new/a.txt"], workdir="/workspace/new")
    assert (answer["exit_code"], answer["files"]) == (0, 1)
    assert tools.git("-C", "new", "status", "--porcelain").split() == ["??", "b.txt"]


@pytest.mark.parametrize("files", [["a.txt", "nothing.txt"], ["README.md"], ["a.txt"]])
def test_a_commit_that_fails_leaves_nothing_staged(tools: Interface, files: list[str]) -> None:
    for name in ("a.txt", "b.txt"):
        tools.file(name, name)
    tools.git("add", "b.txt")
    lock = tools.root / ".git/refs/heads/main.lock"
    if files == ["a.txt"]:
        lock.write_text("")
    answer = tools("git", action="commit", message="m", files=files)
    assert answer["exit_code"] != 0 and answer["message"]
    assert staged(tools) == ["b.txt"]
    lock.unlink(missing_ok=True)
    assert not [name for name in (tools.root / ".git").iterdir() if "wap" in name.name]


def test_a_merge_is_committed_as_a_whole(tools: Interface) -> None:
    tools.git("config", "user.name", "Own")
    tools.git("config", "user.email", "own@example.org")
    tools.git("checkout", "--quiet", "-b", "other")
    tools.file("README.md", "theirs\n")
    tools.file("theirs.txt", "1")
    tools.git("add", "--all")
    tools.git("commit", "--quiet", "--message", "theirs")
    tools.git("checkout", "--quiet", "main")
    tools.file("README.md", "ours\n")
    tools.git("commit", "--quiet", "--all", "--message", "ours")
    with pytest.raises(Exception, match="merge"):
        tools.git("merge", "other")
    tools.file("README.md", "both\n")
    answer = tools("git", action="commit", message="merged", files=["README.md"])
    assert answer["exit_code"] == 0, answer
    assert len(tools.git("log", "-1", "--format=%P").split()) == 2
    assert (tools.git("show", "HEAD:theirs.txt"), tools.git("status", "--porcelain")) == ("1", "")


def test_push_without_a_remote_says_so_before_a_person_is_asked(tmp_path: Path, home: Path) -> None:
    from wap_kernel.policy import presets

    settings = GitSettings(allowed=("https://example.org/*",))
    with opened(tmp_path, policy=presets.load_preset("standard"), git=settings, provider="bubblewrap") as tools:
        tools.repository()
        error = tools.refuse("git", action="push", branch="main")
        assert error.code is Code.INVALID_ARGUMENT and "no remote" in error.text
        assert tools.audit()[0]["outcome"] != "ok"
