"""Diffs that `patch` accepts, bounded for any input."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wap_kernel.files import diffs
from wap_kernel.files.diffs import unified


def test_equal_files_have_no_diff() -> None:
    assert unified("a", b"x\n", b"x\n") == ("", False)


def test_a_changed_line_with_its_context() -> None:
    old = b"".join(b"%d\n" % number for number in range(1, 11))
    diff, cut = unified("n.txt", old, old.replace(b"5\n", b"five\n"))
    assert not cut
    assert diff.splitlines() == [
        "--- a/n.txt", "+++ b/n.txt", "@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8",
    ]  # fmt: skip


def test_a_missing_final_newline_is_said() -> None:
    diff, _ = unified("a", b"x", b"y\n")
    assert diff.splitlines()[-3:] == ["-x", "\\ No newline at end of file", "+y"]


def test_a_large_change_is_cut_and_quick() -> None:
    old = b"".join(b"old %d\n" % number for number in range(100_000))
    diff, cut = unified("a", old, old.replace(b"old", b"new"))
    assert cut
    assert len(diff) <= diffs.MAX_DIFF_CHARACTERS + 100


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("compared", [diffs.MAX_COMPARED_LINES, 0])
@given(old=st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=20), new=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_git_applies_it(
    tmp_path: Path, compared: int, old: list[str], new: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "MAX_COMPARED_LINES", compared)
    changed = new.draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=20))
    before = "\n".join(old).encode() + (b"\n" if len(old) % 2 else b"")
    after = "\n".join(changed).encode() + (b"\n" if len(changed) % 3 else b"")
    if not before or before == after:
        return
    (tmp_path / "f").write_bytes(before)
    diff, _ = unified("f", before, after)
    command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
    subprocess.run(command, input=diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "f").read_bytes() == after
