"""Know the files from which programs take their instructions: `make` reads a Makefile that no word names. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping

_NODE = """
    package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc
    .yarnrc.yml .pnpmfile.cjs bunfig.toml binding.gyp
    """
_PYTHON_PROJECT = "pyproject.toml setup.py setup.cfg"
_MANIFESTS: Mapping[str, tuple[str, ...]] = {
    program: tuple(files.split())
    for programs, files in (
        ("make gmake", "GNUmakefile makefile Makefile"),
        ("npm npx yarn pnpm pnpx bun bunx corepack", _NODE),
        ("uv uvx", f"{_PYTHON_PROJECT} uv.lock uv.toml .python-version .env"),
        ("poetry pdm pipenv", f"{_PYTHON_PROJECT} poetry.lock pdm.lock Pipfile Pipfile.lock"),
        ("pytest py.test", f"{_PYTHON_PROJECT} pytest.ini tox.ini conftest.py"),
        ("tox nox", f"{_PYTHON_PROJECT} tox.ini noxfile.py"),
        ("flask", "app.py wsgi.py .flaskenv .env"),
        ("cargo", "Cargo.toml Cargo.lock build.rs rust-toolchain.toml .cargo/config.toml .cargo/config"),
        ("go", "go.mod go.sum go.work main.go"),
        ("just", "justfile Justfile .justfile"),
        ("rake bundle bundler", "Rakefile Gemfile Gemfile.lock"),
        ("composer", "composer.json composer.lock"),
        ("mvn", "pom.xml .mvn/maven.config"),
        ("gradle", "build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties"),
        ("cmake ctest", "CMakeLists.txt CMakePresets.json"),
        ("snakemake", "Snakefile workflow/Snakefile"),
        ("docker docker-compose podman", "Dockerfile compose.yaml compose.yml docker-compose.yaml docker-compose.yml"),
    )
    for program in programs.split()
}
"""The files that a program reads from its folder, by the program's name."""

_LIFECYCLE = frozenset(
    f"{when}{script}"
    for when in ("", "pre", "post")
    for script in ("install", "prepare", "prepublish", "uninstall", "version", "dependencies")
)
"""Scripts of a package that run by themselves."""
MAX_MANIFEST_BYTES = 256 * 1024
"""Bytes of a manifest whose own lines are searched."""
_REQUIREMENTS = re.compile(r"[^/]*\.(?:txt|in)")
_LOCAL_REQUIREMENT = re.compile(r"\s*[-.]|[^#]*(?:/|file:|\.(?:whl|zip|gz)\b)")


def list_manifests(program: str) -> tuple[str, ...]:
    """Return the files that the program `program` reads from its folder."""
    return _MANIFESTS.get(program, ())


def list_inner_lines(name: str, content: bytes, words: Collection[str]) -> Iterator[str]:
    """Yield the command lines that a line with these words takes from the file `name`.

    `npm run build` runs a script of `package.json`, and `pip install -r` installs what a file of requirements names.
    """
    text = content[:MAX_MANIFEST_BYTES].decode(errors="replace")
    if name == "package.json":
        yield from _list_scripts(text, words)
    elif _REQUIREMENTS.fullmatch(name) and not {"pip", "pip3", "uv"}.isdisjoint(words):
        yield from (f"pip install {line}" for line in text.splitlines() if _LOCAL_REQUIREMENT.match(line))


def _list_scripts(text: str, words: Collection[str]) -> Iterator[str]:
    try:
        package = json.loads(text)
    except (ValueError, RecursionError):
        return
    scripts = package.get("scripts") if isinstance(package, dict) else None
    for name, line in scripts.items() if isinstance(scripts, dict) else ():
        names = (name, name.removeprefix("pre"), name.removeprefix("post"))
        if isinstance(line, str) and (name in _LIFECYCLE or any(each in words for each in names)):
            yield line
