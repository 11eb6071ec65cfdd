"""Diffs that `patch` accepts, bounded for any input."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wap_kernel.files.edit import unified_diff
from wap_kernel.files.edit.unified_diff import render_diff


def test_equal_files_have_no_diff() -> None:
    assert render_diff("a", b"x\n", b"x\n") == ("", False)


def test_a_changed_line_with_its_context() -> None:
    old = b"".join(b"%d\n" % number for number in range(1, 11))
    diff, cut = render_diff("n.txt", old, old.replace(b"5\n", b"five\n"))
    assert not cut
    assert diff.splitlines() == [
        "--- a/n.txt", "+++ b/n.txt", "@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8",
    ]  # fmt: skip


def test_a_missing_final_newline_is_said() -> None:
    diff, _ = render_diff("a", b"x", b"y\n")
    assert diff.splitlines()[-3:] == ["-x", "\\ No newline at end of file", "+y"]


def test_a_large_change_is_cut_and_quick() -> None:
    old = b"".join(b"old %d\n" % number for number in range(100_000))
    diff, cut = render_diff("a", old, old.replace(b"old", b"new"))
    assert cut
    assert len(diff) <= unified_diff.MAX_DIFF_CHARACTERS + 100


class Counting(list[int]):
    """Lines that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override]  # indices only
        self.looks += 1
        return super().__getitem__(index)


def test_of_lines_that_are_too_long_the_beginning_is_shown() -> None:
    text, cut = render_diff("a.js", b"first\n" + b"x" * 100_000 + b"\nlast\n", b"first\n" + b"y" * 100_000)
    assert cut
    assert text.splitlines() == [
        "--- a/a.js",
        "+++ b/a.js",
        "@@ -1,3 +1,2 @@",
        " first",
        f"-{'x' * 1999} [... 98001 characters left out ...]",
        "-last",
        f"+{'y' * 1999} [... 98001 characters left out ...]",
        "\\ No newline at end of file",
    ]
    long = b"z" * 50_000
    assert render_diff("a", long, long + b"\n")[1] is True and render_diff("a", b"", long)[1] is False


def test_the_work_is_bounded_by_the_steps() -> None:
    old, new = Counting([0, 1] * 1000), Counting([1, 1, 0] * 1000)
    assert unified_diff._longest_common(old, new, 10_000) is None
    assert old.looks <= 20_000
    assert new.looks <= 20_000


def test_lines_of_one_side_only_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unified_diff, "MAX_STEPS", 2000)
    diff, _ = render_diff("a", b"a\nx\n" * 1000, b"a\ny\n" * 1000)
    assert diff.count("\n a\n") == 1000
    assert diff.count("\n-x\n") == diff.count("\n+y\n") == 1000


def test_beyond_the_bound_the_middle_is_shown_as_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unified_diff, "MAX_STEPS", 1)
    diff, _ = render_diff("a", b"0\na\nb\nc\n9\n", b"0\nb\na\nc\nb\n9\n")
    assert diff.splitlines()[2:] == ["@@ -1,5 +1,6 @@", " 0", "-a", "-b", "-c", "+b", "+a", "+c", "+b", " 9"]


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_what_is_common_is_as_long_as_can_be(old: list[int], new: list[int]) -> None:
    pairs = unified_diff._longest_common(old, new, 10_000)
    assert pairs is not None
    assert all(old[one] == new[other] for one, other in pairs)
    assert pairs == sorted(set(pairs))
    assert len({one for one, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for one, left in enumerate(old):
        for other, right in enumerate(new):
            longer = max(best[one][other + 1], best[one + 1][other])
            best[one + 1][other + 1] = best[one][other] + 1 if left == right else longer
    assert len(pairs) == best[-1][-1]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("plain name.txt", "a/plain name.txt"),
        ("ä.txt", "a/ä.txt"),
        ("x\n+++ b/other", '"a/x\\n+++ b/other"'),
        ('tab\tquote"back\\', '"a/tab\\tquote\\"back\\\\"'),
        ("\x1b\x7f\u2028", '"a/\\033\\177\\342\\200\\250"'),
        ("\udce9", '"a/\\351"'),
    ],
)
def test_a_path_in_the_header_is_quoted_as_git_does(path: str, shown: str) -> None:
    assert render_diff(path, b"", b"x\n")[0].split("\n")[0] == f"--- {shown}"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_understands_a_quoted_path(tmp_path: Path) -> None:
    path = 'a\tb\n"c\\\x1b'
    (tmp_path / path).write_bytes(b"old\n")
    diff, _ = render_diff(path, b"old\n", b"new\n")
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / path).read_bytes() == b"new\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("steps", [unified_diff.MAX_STEPS, 0])
@given(old=st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=20), new=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_git_applies_it(
    tmp_path: Path, steps: int, old: list[str], new: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unified_diff, "MAX_STEPS", steps)
    changed = new.draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=20))
    before = "\n".join(old).encode() + (b"\n" if len(old) % 2 else b"")
    after = "\n".join(changed).encode() + (b"\n" if len(changed) % 3 else b"")
    if not before or before == after:
        return
    (tmp_path / "f").write_bytes(before)
    diff, _ = render_diff("f", before, after)
    command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
    subprocess.run(command, input=diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "f").read_bytes() == after
