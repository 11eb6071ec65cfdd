"""What is protected always, also when the root is the home folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.errors import Code
from wap_kernel.policy.paths.protected import HOME_SECRETS, Level, ProtectedPaths, protected_paths

HIDDEN = "share/jupyter/wap/1"
paths = ProtectedPaths(
    hidden=frozenset({("share", "jupyter", "wap", "1"), ("run",)}),
    read_only=frozenset({("share", "jupyter"), (".bashrc",)}),
)


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".", Level.OPEN),
        ("a.py", Level.OPEN),
        ("share", Level.OPEN),
        ("share/jupyter", Level.READ_ONLY),
        ("share/jupyter/kernels/x", Level.READ_ONLY),
        (HIDDEN, Level.HIDDEN),
        (f"{HIDDEN}/state.db", Level.HIDDEN),
        ("run/jpserver-1.json", Level.HIDDEN),
        ("RUN/jpserver-1.json", Level.HIDDEN),
        ("runner", Level.OPEN),
        (".bashrc", Level.READ_ONLY),
        (".cws-policy.json", Level.READ_ONLY),
        ("sub/.cws-policy.json", Level.READ_ONLY),
        (".CWS-policy.JSON", Level.READ_ONLY),
        (".git/hooks", Level.READ_ONLY),
        (".git/hooks/pre-commit", Level.READ_ONLY),
        ("sub/.git/config", Level.READ_ONLY),
        (".git/commondir", Level.READ_ONLY),
        ("sub/.git", Level.READ_ONLY),
        ("hooks", Level.OPEN),
        (".gitignore", Level.OPEN),
    ],
)
def test_levels(path: str, level: Level) -> None:
    assert paths.level(path) is level


def test_only_what_lies_below_the_root_counts_but_a_root_inside_the_runtime_folder_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run" / "deep").mkdir(parents=True)
    assert protected_paths(str(tmp_path), str(tmp_path / "s")).level("run/deep") is Level.HIDDEN
    assert protected_paths(str(tmp_path / "run" / "deep"), str(tmp_path / "s")).level("x") is Level.HIDDEN


def test_the_server_names_what_it_knows_to_be_secret(tmp_path: Path) -> None:
    guard = protected_paths(
        str(tmp_path), "/elsewhere", hidden=[str(tmp_path / "cookie"), ""], read_only=[str(tmp_path / "config.py")]
    )
    assert guard.level("cookie") is Level.HIDDEN
    assert guard.level("config.py") is Level.READ_ONLY
    assert guard.level("other") is Level.OPEN


def test_a_root_at_the_top_does_not_open_the_machine() -> None:
    guard = protected_paths("/", "/elsewhere")
    for path in ("proc/1/environ", "proc/self/cmdline", "sys/kernel", "dev/sda"):
        assert guard.level(path) is Level.HIDDEN


def test_what_people_keep_of_passwords_and_keys_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    guard = protected_paths(str(tmp_path), "/elsewhere")
    assert {guard.level(f"{name}/x") for name in HOME_SECRETS} == {Level.HIDDEN}
    assert guard.level(".config/git/config") is Level.READ_ONLY
    assert guard.level(".config/matplotlib") is Level.OPEN
    below = protected_paths(str(tmp_path / "project"), "/elsewhere")
    assert below.level(".npmrc") is Level.OPEN
    inside = protected_paths(str(tmp_path / ".ssh"), "/elsewhere")
    assert inside.level("config") is Level.HIDDEN


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".local/share/jupyter/runtime/jpserver-1.json", Level.HIDDEN),
        (".local/share/jupyter/wap/1/state.db", Level.HIDDEN),
        ("Library/Jupyter/runtime/jpserver-1.json", Level.HIDDEN),
        (".local/share/jupyter/kernels/python3/kernel.json", Level.READ_ONLY),
        (".local/etc/jupyter/jupyter_server_config.d/x.json", Level.READ_ONLY),
        ("Library/Jupyter/kernels/python3/kernel.json", Level.READ_ONLY),
        (".jupyter/jupyter_server_config.py", Level.READ_ONLY),
        (".ipython/profile_default/startup/00.py", Level.READ_ONLY),
        ("elsewhere/runtime/jpserver-1.json", Level.HIDDEN),
        ("elsewhere/config/jupyter_server_config.py", Level.READ_ONLY),
    ],
)
def test_jupyters_usual_folders_are_protected_beside_the_configured_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, level: Level
) -> None:
    """Another server of the same user, or the next one, looks there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "elsewhere" / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "elsewhere/ipython"))
    assert protected_paths(str(tmp_path), "/elsewhere").level(path) is level


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".config/ipython/profile_default/startup/a.py", Level.READ_ONLY),
        ("xdg/config/ipython/profile_default/startup/a.py", Level.READ_ONLY),
        ("xdg/config/fish/config.fish", Level.READ_ONLY),
        ("xdg/config/gh/hosts.yml", Level.HIDDEN),
        ("xdg/data/keyrings/login.keyring", Level.HIDDEN),
        ("xdg/config/matplotlib/matplotlibrc", Level.OPEN),
    ],
)
def test_what_programs_look_for_by_the_xdg_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, level: Level
) -> None:
    """IPython's startup folder among it, where there is no ~/.ipython."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg/config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg/data"))
    assert protected_paths(str(tmp_path), "/elsewhere").level(path) is level


def test_names_of_what_cannot_be_changed() -> None:
    assert paths.read_only_names("share") == {".git", ".cws-policy.json", "jupyter"}
    assert paths.read_only_names("elsewhere") == {".git", ".cws-policy.json"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_tools: Callable[..., Any]) -> Any:
    """A workspace whose root is the home folder, with everything that people keep there."""
    home = tmp_path / "home"
    for name, value in {
        "HOME": home,
        "JUPYTER_DATA_DIR": home / ".local/share/jupyter",
        "JUPYTER_RUNTIME_DIR": home / ".local/share/jupyter/runtime",
        "JUPYTER_CONFIG_DIR": home / ".jupyter",
        "IPYTHONDIR": home / ".ipython",
    }.items():
        monkeypatch.setenv(name, str(value))
    for name in FILES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("original secret")
    (home / "link-to-runtime").symlink_to(".local/share/jupyter/runtime")
    (home / "link-to-startup").symlink_to(home / ".ipython/profile_default/startup")
    return make_tools(home, state=home / ".local/share/jupyter/wap/1")


RUNTIME = ".local/share/jupyter/runtime/jpserver-1.json"
KEY = ".ssh/id_rsa"
FILES = (
    RUNTIME,
    KEY,
    ".local/share/jupyter/kernels/python3/kernel.json",
    ".jupyter/jupyter_server_config.py",
    ".ipython/profile_default/startup/00.py",
    ".bashrc",
    ".profile",
    ".local/bin/git",
    ".venv/bin/python",
    "project/.git/config",
    "project/.git/hooks/pre-commit",
    "project/.cws-policy.json",
    "project/main.py",
)
UNREADABLE = (
    RUNTIME,
    ".local/share/jupyter/wap/1/state.db",
    ".local/share/jupyter/wap/another/state.db",
    "link-to-runtime/jpserver-1.json",
    KEY,
)
READ_ONLY = (
    *(name for name in FILES if name not in (RUNTIME, KEY, "project/main.py")),
    "link-to-startup/00.py",
    "link-to-startup/new.py",
    ".jupyter/new.py",
    ".cws-policy.json",
    "project/sub/../.cws-policy.json",
    "new/.git/hooks/post-checkout",
    "new/.git",
    "project/.git/commondir",
)


@pytest.mark.parametrize("path", UNREADABLE)
def test_the_servers_own_secrets_cannot_be_read(home: Any, path: str) -> None:
    assert home.refuse("readFile", path=path).code is Code.PERMISSION_DENIED
    assert home.refuse("readFile", path=path, encoding="base64").code is Code.PERMISSION_DENIED
    assert home.refuse("copyFile", source=path, destination="stolen").code is Code.PERMISSION_DENIED
    assert home.refuse("moveFile", source=path, destination="stolen").code is Code.PERMISSION_DENIED
    assert home.refuse("searchFiles", paths=[path], query="secret", type="literal").code is Code.PERMISSION_DENIED
    assert home.refuse("exploreFiles", path=os.path.dirname(path)).code is Code.PERMISSION_DENIED
    assert not (home.root / "stolen").exists()


def test_they_are_neither_listed_nor_found(home: Any) -> None:
    listed = home.exploreFiles(path=".", recursive=True, maxDepth=20, returnMetadata=True, excludePatterns=[])
    assert not [file for file in listed["files"] if any(part in file["path"] for part in ("runtime/", "wap/1", ".ssh"))]
    for kind in ("literal", "regex"):
        found = home.searchFiles(paths=["."], query="original secret", type=kind, excludePatterns=[])
        assert {match["path"] for match in found["matches"]} == set(FILES) - {RUNTIME, KEY}


@pytest.mark.parametrize("path", READ_ONLY)
def test_what_others_obey_cannot_be_written(home: Any, path: str) -> None:
    (home.root / "project" / "sub").mkdir()
    attempts = [
        ("writeFile", {"path": path, "content": "evil", "createDirectories": True}),
        ("writeFile", {"path": path, "content": "evil", "mode": "append", "createDirectories": True}),
        ("copyFile", {"source": "project/main.py", "destination": path, "overwrite": True, "createDirectories": True}),
        ("moveFile", {"source": "project/main.py", "destination": path, "overwrite": True, "createDirectories": True}),
        ("createDirectory", {"path": path}),
    ]
    if (home.root / path).exists():
        change = {"type": "insert", "afterLine": 0, "newContent": "evil"}
        attempts += [
            ("modifyFile", {"path": path, "operations": [change]}),
            ("deleteFile", {"path": path}),
            ("moveFile", {"source": path, "destination": "elsewhere"}),
        ]
    for tool, parameters in attempts:
        assert home.refuse(tool, **parameters).code is Code.PERMISSION_DENIED, tool
    for name in FILES:
        assert (home.root / name).read_text() == "original secret"


@pytest.mark.parametrize(
    "path", [".local", ".local/share", ".jupyter", ".ipython", "project/.git", "project", ".local/share/jupyter/wap"]
)
def test_a_folder_that_holds_protected_files_is_neither_removed_nor_replaced(home: Any, path: str) -> None:
    assert home.refuse("deleteFile", path=path, recursive=True).code is Code.PERMISSION_DENIED
    if path != "project":  # a repository may be renamed: its hooks and policy stay protected under the new name
        assert home.refuse("moveFile", source=path, destination="elsewhere").code is Code.PERMISSION_DENIED
    for name in FILES:
        assert (home.root / name).read_text() == "original secret"


def test_a_folder_cannot_become_a_repository_with_hooks(home: Any) -> None:
    home.writeFile(path="fake/hooks/pre-commit", content="evil", createDirectories=True)
    assert home.refuse("moveFile", source="fake", destination="other/.git", createDirectories=True).code is (
        Code.PERMISSION_DENIED
    )


def test_the_rest_of_the_home_folder_is_open(home: Any) -> None:
    assert home.readFile(path="project/main.py")["content"] == "original secret"
    assert home.readFile(path=".bashrc")["content"] == "original secret"
    assert home.writeFile(path="project/main.py", content="changed")["success"]
    assert home.moveFile(source="project", destination="renamed")["success"]
    assert home.refuse("writeFile", path="renamed/.git/hooks/pre-commit", content="evil").code is Code.PERMISSION_DENIED
