"""What is protected always, also when the root is the home folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.errors import Code
from wap_kernel.policy.paths.current_paths import find_protected_paths
from wap_kernel.policy.paths.home_names import HOME_SECRETS
from wap_kernel.policy.paths.protected import ProtectedPaths, Protection

HIDDEN = "share/jupyter/wap/1"
paths = ProtectedPaths(
    hidden=frozenset({("share", "jupyter", "wap", "1"), ("run",)}),
    read_only=frozenset({("share", "jupyter"), (".bashrc",)}),
)


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".", Protection.OPEN),
        ("a.py", Protection.OPEN),
        ("share", Protection.OPEN),
        ("share/jupyter", Protection.READ_ONLY),
        ("share/jupyter/kernels/x", Protection.READ_ONLY),
        (HIDDEN, Protection.HIDDEN),
        (f"{HIDDEN}/state.db", Protection.HIDDEN),
        ("run/jpserver-1.json", Protection.HIDDEN),
        ("RUN/jpserver-1.json", Protection.HIDDEN),
        ("runner", Protection.OPEN),
        (".bashrc", Protection.READ_ONLY),
        (".cws-policy.json", Protection.READ_ONLY),
        ("sub/.cws-policy.json", Protection.READ_ONLY),
        (".CWS-policy.JSON", Protection.READ_ONLY),
        (".git/hooks", Protection.READ_ONLY),
        (".git/hooks/pre-commit", Protection.READ_ONLY),
        ("sub/.git/config", Protection.READ_ONLY),
        (".git/commondir", Protection.READ_ONLY),
        ("sub/.git", Protection.READ_ONLY),
        ("hooks", Protection.OPEN),
        (".gitignore", Protection.OPEN),
    ],
)
def test_levels(path: str, level: Protection) -> None:
    assert paths.level(path) is level


def test_only_what_lies_below_the_root_counts_but_a_root_inside_the_runtime_folder_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run" / "deep").mkdir(parents=True)
    assert find_protected_paths(str(tmp_path), str(tmp_path / "s")).level("run/deep") is Protection.HIDDEN
    assert find_protected_paths(str(tmp_path / "run" / "deep"), str(tmp_path / "s")).level("x") is Protection.HIDDEN


def test_the_server_names_what_it_knows_to_be_secret(tmp_path: Path) -> None:
    guard = find_protected_paths(
        str(tmp_path), "/elsewhere", hidden=[str(tmp_path / "cookie"), ""], read_only=[str(tmp_path / "config.py")]
    )
    assert guard.level("cookie") is Protection.HIDDEN
    assert guard.level("config.py") is Protection.READ_ONLY
    assert guard.level("other") is Protection.OPEN


def test_a_root_at_the_top_does_not_open_the_machine() -> None:
    guard = find_protected_paths("/", "/elsewhere")
    for path in ("proc/1/environ", "proc/self/cmdline", "sys/kernel", "dev/sda"):
        assert guard.level(path) is Protection.HIDDEN


def test_what_people_keep_of_passwords_and_keys_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    guard = find_protected_paths(str(tmp_path), "/elsewhere")
    assert {guard.level(f"{name}/x") for name in HOME_SECRETS} == {Protection.HIDDEN}
    assert guard.level(".config/git/config") is Protection.READ_ONLY
    assert guard.level(".config/matplotlib") is Protection.OPEN
    below = find_protected_paths(str(tmp_path / "project"), "/elsewhere")
    assert below.level(".npmrc") is Protection.OPEN
    inside = find_protected_paths(str(tmp_path / ".ssh"), "/elsewhere")
    assert inside.level("config") is Protection.HIDDEN


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".local/share/jupyter/runtime/jpserver-1.json", Protection.HIDDEN),
        (".local/share/jupyter/wap/1/state.db", Protection.HIDDEN),
        ("Library/Jupyter/runtime/jpserver-1.json", Protection.HIDDEN),
        (".local/share/jupyter/kernels/python3/kernel.json", Protection.READ_ONLY),
        (".local/etc/jupyter/jupyter_server_config.d/x.json", Protection.READ_ONLY),
        ("Library/Jupyter/kernels/python3/kernel.json", Protection.READ_ONLY),
        (".jupyter/jupyter_server_config.py", Protection.READ_ONLY),
        (".ipython/profile_default/startup/00.py", Protection.READ_ONLY),
        ("elsewhere/runtime/jpserver-1.json", Protection.HIDDEN),
        ("elsewhere/config/jupyter_server_config.py", Protection.READ_ONLY),
    ],
)
def test_jupyters_usual_folders_are_protected_beside_the_configured_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, level: Protection
) -> None:
    """Another server of the same user, or the next one, looks there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "elsewhere" / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "elsewhere/ipython"))
    assert find_protected_paths(str(tmp_path), "/elsewhere").level(path) is level


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".config/ipython/profile_default/startup/a.py", Protection.READ_ONLY),
        ("xdg/config/ipython/profile_default/startup/a.py", Protection.READ_ONLY),
        ("xdg/config/fish/config.fish", Protection.READ_ONLY),
        ("xdg/config/gh/hosts.yml", Protection.HIDDEN),
        ("xdg/data/keyrings/login.keyring", Protection.HIDDEN),
        ("xdg/config/matplotlib/matplotlibrc", Protection.OPEN),
    ],
)
def test_what_programs_look_for_by_the_xdg_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, level: Protection
) -> None:
    """IPython's startup folder among it, where there is no ~/.ipython."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg/config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg/data"))
    assert find_protected_paths(str(tmp_path), "/elsewhere").level(path) is level


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
