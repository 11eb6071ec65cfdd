"""What git prints of denied files in a sandbox: nothing of what is in them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.provider_workspace import skip_unless_works
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.operations import RunCommand
from wap_kernel.model.paths import Access
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.model.results import CommandResult
from wap_kernel.policy import presets
from wap_kernel.policy.commands.git_attributes import CLOSED, AttributeFiles, render_attributes
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.guard import PolicyGuard
from wap_kernel.policy.paths.protected import ProtectedPaths

HIDDEN = ProtectedPaths(frozenset({(".ssh",), ("proj", "to*ken")}), frozenset())


def layer(*denied: str, allowed: tuple[str, ...] | None = None) -> Policy:
    return Policy(name="layer", filesystem=FilesystemPolicy(denied_paths=denied, allowed_paths=allowed))


def guard(*layers: Policy) -> PolicyGuard:
    return PolicyGuard(HIDDEN, EffectivePolicy(layers))


def git(folder: Path, *arguments: str, variable_values: bytes = b"") -> bytes:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, input=variable_values, check=True, capture_output=True, timeout=60
    ).stdout


def closed(folder: Path, attributes: bytes, paths: list[str]) -> set[str]:
    """Which of the paths git takes for closed; git itself is asked."""
    (folder / "attributes").write_bytes(attributes)
    given = b"".join(path.encode() + b"\0" for path in paths)
    setting = f"core.attributesFile={folder / 'attributes'}"
    found = git(folder, "-c", setting, "check-attr", "-z", "--stdin", "diff", variable_values=given).split(b"\0")
    return {path.decode() for path, value in zip(found[0::3], found[2::3], strict=False) if value == b"unset"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    return folder


PATHS = (
    """
.env .ENV sub/.env .env.example .env.example/x a.py src/a.py src/deep/b.py secrets/x secrets/pub.txt sub/secrets/x Top
top sub/top conf/prod.yml sub/conf/prod.yml conf/dev.yml key.pem x/KEY.Pem/y data1/x data2/x tab\there/x "q"/x .ssh/id
a b/c back\\slash star* ünï/x README.md
""".strip()
    .replace("\n", " ")
    .split(" ")
)
PATHS += ["a b/c", "to*ken", "nl\nx/y", "[x]"]


@pytest.mark.parametrize(
    "layers",
    [
        [layer(".env")],
        [layer("*.env", ".env.*", "*.pem")],
        [layer("secrets/**")],
        [layer("secrets")],
        [layer("/top", "conf/prod.yml", "data[12]/**")],
        [layer("{src,data1}/**", "**/conf/*.yml")],
        [layer("a b/**", "tab\there", '"q"', "back\\\\slash", "star\\*", "ün*", "nl\nx/**", "\\[x\\]")],
        [layer(".env"), layer("src/*.py")],
        [layer(allowed=("src/**", "*.md"))],
        [layer("src/deep/**", allowed=("src/**",))],
    ],
)
def test_git_closes_what_policy_closes(repository: Path, layers: list[Policy]) -> None:
    guarded = guard(*layers)
    assert closed(repository, render_attributes(guarded, ["."]), PATHS) == {
        path for path in PATHS if is_refused(guarded, path)
    }


@pytest.mark.parametrize(
    ("layers", "opened"),
    [
        ([layer(".env.*", "!.env.example")], {".env.example", "a.py"}),
        ([presets.load_preset("standard")], {".env.example", "a.py"}),
        ([presets.load_preset("restrictive")], {".env.example", "a.py"}),
        ([layer("secrets/**", "!pub.txt")], {"a.py"}),  # a folder that is closed stays closed with all that is in it
        ([layer("*.env"), layer("!.env", "*.py")], {"README.md"}),  # one layer takes back nothing of another's
        ([layer("*.py", "!b.py"), layer("*.md", "!a.py")], {"Top"}),  # nor do two undo each other's
        ([layer(allowed=("src/**",)), layer(allowed=("**/*.py",))], set()),
    ],
)
def test_never_less_than_policy_closes(repository: Path, layers: list[Policy], opened: set[str]) -> None:
    guarded = guard(*layers)
    found = closed(repository, render_attributes(guarded, ["."]), PATHS)
    assert guarded.effective.broken is None
    assert found >= {path for path in PATHS if is_refused(guarded, path)}
    assert set(PATHS) - found >= opened


def test_a_line_that_git_would_not_read_closes_everything(repository: Path) -> None:
    assert closed(repository, render_attributes(guard(layer("/".join(["x" * 200] * 4))), ["."]), PATHS) == set(PATHS)


def test_repositories_below_the_root(repository: Path) -> None:
    """Their paths begin at their own top."""
    guarded = guard(layer("proj/conf/prod.yml", ".env", "other/**"))
    paths = ["conf/prod.yml", "prod.yml", "sub/.env", "a.py", "other/x", "proj/conf/prod.yml", "to*ken", "tooken"]
    of_one = closed(repository, render_attributes(guarded, ["proj"]), paths)
    assert of_one == {"conf/prod.yml", "sub/.env", "to*ken"}
    assert closed(repository, render_attributes(guarded, ["proj", "."]), paths) == of_one | {
        "other/x",
        "proj/conf/prod.yml",
    }
    allowing = guard(layer(allowed=("proj/src/**", "**/*.md")))
    paths = ["src/x", "x.md", "proj/src/x", "y"]
    assert closed(repository, render_attributes(allowing, ["proj"]), paths) == {"proj/src/x", "y"}
    assert closed(repository, render_attributes(allowing, ["proj", "."]), paths) == {"src/x", "proj/src/x", "y"}


def test_the_file_is_there_when_it_is_needed(tmp_path: Path) -> None:
    files = AttributeFiles(str(tmp_path))
    denying = guard(layer(".env"))
    path = files.file_for(denying, ["."])
    assert path is not None and Path(path).read_bytes() == render_attributes(denying, ["."])
    Path(path).unlink()  # somebody cleared the state folder
    assert files.file_for(denying, ["."]) == path and Path(path).exists()
    assert files.file_for(denying, []) is None
    assert files.file_for(PolicyGuard(ProtectedPaths(frozenset(), frozenset()), EffectivePolicy(())), ["."]) is None


def is_refused(guarded: PolicyGuard, path: str) -> bool:
    try:
        guarded.check(path, Access.READ)
    except PermissionDenied:
        return True
    return False


# -- real commands

SECRET = "s3cret"
COMMITTED = "committed-once"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """`.env` is in the repository, and `old.pem` was."""
    skip_unless_works("bubblewrap")
    folder = tmp_path_factory.mktemp("workspace")
    git(folder, "init", "-q")
    for content in ("1", "2"):
        (folder / ".env").write_text(f"KEY={SECRET}{content}\n")
        (folder / "old.pem").write_text(f"{COMMITTED}{content}\n")
        (folder / "a.txt").write_text(f"open{content}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"number {content}")
    git(folder, "rm", "-q", "old.pem")
    git(folder, "commit", "-qm", "away")
    (folder / "a.txt").write_text("open3\n")
    state = tmp_path_factory.mktemp("state")
    policy = layer(".env", "*.pem")
    found = Workspace(str(folder), policy=policy, provider="bubblewrap", state_dir=str(state), undo=False)
    yield found
    asyncio.run(found.close())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("git diff", "open3"),
        ("git diff HEAD~2", "open3"),
        ("git show HEAD~1", "open2"),
        ("git log -p", "open1"),
        ("git log -p --all --word-diff", "open1"),
        ("git diff-tree -p HEAD~1", "open2"),
        ("git grep -h -e KEY -e open HEAD", "open2"),
        ("git grep -e KEY -e committed HEAD~1", "Binary file"),
        ("git show HEAD~1 -- '*'", "open2"),
        ("sh -c 'git diff'", "open3"),
        ('python3 -c \'import subprocess; subprocess.run(["git", "diff"])\'', "open3"),
        ("git archive HEAD~1 | tar -xO", "open2"),
    ],
)
def test_denied_contents_are_not_printed(workspace: Workspace, command: str, shown: str) -> None:
    found = asyncio.run(workspace.perform(RunCommand(command=command)))
    assert isinstance(found, CommandResult)
    assert shown in found.stdout and SECRET not in found.stdout and COMMITTED not in found.stdout


def test_a_file_that_the_sandbox_hides_is_not_committed_empty(tmp_path: Path) -> None:
    skip_unless_works("bubblewrap")
    folder = tmp_path / "ws"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in (".env", "a.txt"):
        (folder / name).write_text(f"KEY={SECRET}\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "new.pem").write_text(COMMITTED)
    workspace = Workspace(
        str(folder), policy=layer(".env", "*.pem"), provider="bubblewrap", state_dir=str(tmp_path / "state"), undo=False
    )
    me = "-c user.name=a -c user.email=a@example.org"
    command = f"echo x > a.txt; git {me} commit -qam all; git {me} commit -qm one -- .env; git diff; git add -A"
    try:
        found = asyncio.run(workspace.perform(RunCommand(command=command)))
    finally:
        asyncio.run(workspace.close())
    assert isinstance(found, CommandResult)
    assert git(folder, "log", "--name-only", "--format=").split() == [b"a.txt", b".env", b"a.txt"]
    assert git(folder, "show", "HEAD:.env") == f"KEY={SECRET}\n".encode()
    assert "new.pem: clean filter 'closed-by-policy' failed" in found.stderr and found.exit_code == 128
    assert git(folder, "ls-files").split() == [b".env", b"a.txt"]


@pytest.mark.parametrize("provider", ["bubblewrap", "gvisor"])
def test_the_attributes_are_shown_and_cannot_be_changed(tmp_path: Path, provider: str) -> None:
    """Also where git itself does not run in the sandbox."""
    skip_unless_works(provider)
    (tmp_path / "ws" / ".git").mkdir(parents=True)
    workspace = Workspace(
        str(tmp_path / "ws"), policy=layer(".env"), provider=provider, state_dir=str(tmp_path / "state"), undo=False
    )
    command = "f=$GIT_CONFIG_VALUE_2; cat $f; echo x > $f; rm -f $f; : > .env; cat $f; echo $GIT_CONFIG_KEY_2"
    try:
        found = asyncio.run(workspace.perform(RunCommand(command=command)))
    finally:
        asyncio.run(workspace.close())
    assert isinstance(found, CommandResult)
    lines = found.stdout.splitlines()
    assert lines[0] == f'"**/.[eE][nN][vV]" {CLOSED}' in lines[1:] and lines[-1] == "core.attributesFile"


def test_a_secret_that_becomes_a_link_closes_what_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `git commit -a` would commit the empty file that a sandbox shows."""
    home = tmp_path / "home"
    (home / "dotfiles/ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    guarded = PolicyGuard(find_protected_paths(str(home), "/elsewhere"), EffectivePolicy(()))
    files = AttributeFiles(str(tmp_path))
    before = files.file_for(guarded, ["."])
    assert before is not None and files.file_for(guarded, ["."]) == before
    (home / ".ssh").symlink_to("dotfiles/ssh")
    after = files.file_for(guarded, ["."])
    subprocess.run(["git", "init", "-q", home], check=True)
    assert after is not None
    for path, expected in ((before, set()), (after, {"dotfiles/ssh/config"})):
        assert closed(home, Path(path).read_bytes(), ["dotfiles/ssh/config", "dotfiles/other"]) == expected
