"""What a user gets from `pip install`: a complete wheel, a server extension that is on by itself, true dependencies."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import wap_kernel
from scripts.demo import running_server

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("wap_kernel", "jupyter_ext")
SERVER_SIDE = {"jupyter_ext", "jupyter_server", "tornado"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run("-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of a new environment: our dependencies, and the wheel in place of this repository."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    site_packages = Path(_run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", python=python).strip())
    # Python reads no .pth file of a folder that a .pth file names, so our own editable install is not seen.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    _run("-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--ignore-installed", str(wheel))
    return python


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    expected = {
        path.relative_to(REPOSITORY).as_posix()
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert expected - names == set()
    extra = {name for name in names - expected if ".dist-info/" not in name and ".data/" not in name}
    assert extra == set()


def test_wheel_enables_the_extension(wheel: Path) -> None:
    version = wap_kernel.__version__
    with zipfile.ZipFile(wheel) as archive:
        name = f"wap_kernel-{version}.data/data/etc/jupyter/jupyter_server_config.d/wap.json"
        config = json.loads(archive.read(name))
        metadata = archive.read(f"wap_kernel-{version}.dist-info/METADATA").decode()
    assert config == {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}}
    assert f"\nVersion: {version}\n" in metadata
    assert "\nLicense-Expression: BSD-3-Clause\n" in metadata


def test_jupyter_lists_the_extension_after_install(installed: str, tmp_path: Path) -> None:
    listing = _run("-m", "jupyter_server", "extension", "list", cwd=tmp_path, python=installed)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", listing)
    assert re.search(r"^\s*jupyter_ext enabled$", plain, re.MULTILINE), plain
    assert re.search(r"^\s*jupyter_ext .*OK$", plain, re.MULTILINE), plain


def test_jupyter_lists_the_kernel_after_install(installed: str, tmp_path: Path) -> None:
    listing = json.loads(_run("-m", "jupyter_client.kernelspecapp", "list", "--json", cwd=tmp_path, python=installed))
    spec = listing["kernelspecs"]["wap"]
    assert spec["spec"]["display_name"] == "wap"
    assert {path.name for path in Path(spec["resource_dir"]).iterdir()} >= {"kernel.json", "logo-64x64.png"}
    assert spec["resource_dir"].startswith(str(Path(installed).parents[1]))


def test_jupyter_server_serves_the_tools_after_install(installed: str) -> None:
    with running_server(installed) as server:
        request = urllib.request.Request(
            f"{server.url}wap/api/getWorkspaceInfo", b"{}", {"Authorization": f"token {server.token}"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            info = json.load(response)
    assert info["root"] == str(server.workspace.resolve())
    assert info["version"] == wap_kernel.__version__


LOADERS = ("papermill",)
"""Packages that load a module of ours by an entry point, and so are there when it is imported."""


def test_every_third_party_import_is_a_declared_dependency() -> None:
    declared = {_normal(name) for name in _declared_dependencies()}
    providers = importlib.metadata.packages_distributions()
    undeclared = {
        (module, str(path.relative_to(REPOSITORY)))
        for package in PACKAGES
        for path, module in _imports(package)
        if module not in sys.stdlib_module_names
        and module not in (*PACKAGES, *LOADERS)
        and not declared & {_normal(name) for name in providers.get(module, [])}
    }
    assert undeclared == set()


def test_the_engine_does_not_import_the_server() -> None:
    wrong = {
        (module, str(path.relative_to(REPOSITORY))) for path, module in _imports("wap_kernel") if module in SERVER_SIDE
    }
    assert wrong == set()


def test_make_help_names_every_command() -> None:
    text = (REPOSITORY / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    described = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert described == set(phony[1].split()) - {"setup"}


def _run(*arguments: str, python: str = sys.executable, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(
        [python, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _imports(package: str) -> Iterator[tuple[Path, str]]:
    """Every module that is imported absolutely, by its top-level name."""
    for path in (REPOSITORY / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield path, node.module.partition(".")[0]


def _declared_dependencies() -> list[str]:
    # Read as text: tomllib came with Python 3.11.
    text = (REPOSITORY / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    # The extras are imported only where a GitHub App is configured, and where an image is too large.
    extras = re.findall(r"^(?:github|images) = \[(.*?)\]$", text, re.MULTILINE)
    assert block is not None and len(extras) == 2
    return [*re.findall(r'"([A-Za-z0-9_.-]+)', block[1] + "".join(extras)), "cryptography"]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
