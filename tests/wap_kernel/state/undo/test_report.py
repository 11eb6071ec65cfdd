"""Describe a run's changes: enough to decide about a revert, and nothing that the reader may not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.change_workspace import ChangeWorkspace
from wap_kernel.files.interface import NullGuard
from wap_kernel.model.operations import MoveFile, RevertRun, WriteFile
from wap_kernel.state.undo import report
from wap_kernel.state.undo.report import RevertPreview, describe_changes


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[ChangeWorkspace]:
    workspace = ChangeWorkspace(tmp_path / "w", tmp_path / "state")
    yield workspace
    workspace.close()


def describe(workspace: ChangeWorkspace, run: str = "run", closed: str = "") -> dict[str, Any]:
    return describe_changes(workspace.history, workspace.reverter, run, lambda path: path != closed)


def preview(workspace: ChangeWorkspace, *, force: bool = False) -> RevertPreview:
    operation = RevertRun(run="run", force=force)
    return report.preview_revert(
        workspace.history, workspace.reverter, operation, NullGuard(), lambda _: True, lambda _: True
    )


def test_contents_that_may_not_be_read_are_never_shown(workspace: ChangeWorkspace) -> None:
    (workspace.folder / ".env").write_text("SECRET=1\n")
    workspace.command("run", "echo SECRET=2 > .env; printf 'a\\0' > binary; echo x > text; mkdir d; ln -s text l")
    described = describe(workspace, closed=".env")
    assert "SECRET" not in str(described)
    assert {entry["path"]: (entry["change"], entry.get("diff")) for entry in described["changes"]} == {
        ".env": ("modified", None),
        "binary": ("created", "Binary file binary: 0 bytes before, 2 bytes after\n"),
        "d": ("folder created", None),
        "l": ("created", None),
        "text": ("created", "--- a/text\n+++ b/text\n@@ -0,0 +1 @@\n+x\n"),
    }


def test_whole_folders_are_listed_with_what_is_in_them(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir -p old/a; echo 1 > old/a/f; echo 1 > becomes; mkdir gone; echo g > gone/g")
    workspace.command(
        "run", "rm -r old; mkdir -p new/b; echo 2 > new/b/f; rm becomes; mkdir becomes; echo 3 > becomes/f"
    )
    workspace.command("run", "rm -r gone; echo file > gone")
    described = describe(workspace)
    assert {entry["path"]: entry["change"] for entry in described["changes"]} == {
        **{"old": "folder deleted", "old/a": "folder deleted", "old/a/f": "deleted"},
        **{"new": "folder created", "new/b": "folder created", "new/b/f": "created"},
        **{"becomes": "modified", "becomes/f": "created", "gone": "modified", "gone/g": "deleted"},
    }
    diffs = {entry["path"]: entry.get("diff", "") for entry in described["changes"]}
    assert "-1" in diffs["old/a/f"] and "+2" in diffs["new/b/f"] and "-g" in diffs["gone/g"]
    assert all(entry["revertible"] for entry in described["changes"])


def test_several_changes_of_a_path_are_one_from_the_first_to_the_last(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo one > log; echo same > same; mkdir d; echo x > d/x")
    workspace.write("run", "log", b"two\n", mode="append")
    workspace.write("run", "log", b"three\n", mode="append")
    workspace.write("run", "passing", b"1")
    workspace.command("run", "rm passing; mv d e; echo y >> e/x; touch -d 2001-01-01 same")
    workspace.do("run", WriteFile(path="new", content=b"n"))
    workspace.do("run", MoveFile(source="new", destination="newer"))
    described = describe(workspace)
    assert {entry["path"]: (entry["change"], entry.get("from")) for entry in described["changes"]} == {
        **{"log": ("modified", None), "e": ("moved", "d"), "e/x": ("modified", None)},
        "newer": ("created", None),
    }
    diff = next(entry["diff"] for entry in described["changes"] if entry["path"] == "log")
    assert diff == "--- a/log\n+++ b/log\n@@ -1 +1,3 @@\n one\n+two\n+three\n"


def test_a_run_that_was_reverted_is_still_described_with_its_contents(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo old > f; mkdir d; echo x > d/x")
    workspace.command("run", "echo new > f; rm -r d")
    first = describe(workspace)
    workspace.revert("run", "revert")
    assert describe(workspace) == first
    assert {entry["path"] for entry in describe(workspace, "revert")["changes"]} == {"f", "d", "d/x"}


def test_conflicts_and_losses_are_marked(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("for f in a b c; do echo old > $f; done")
    workspace.command("run", "for f in a b c; do echo new > $f; done")
    (workspace.folder / "a").write_text("mine")
    lost = next(row for row in workspace.history.log.read("run") if row.path == "b")
    workspace.history.store.remove(lost.token)
    found = describe(workspace)
    assert [item["path"] for item in found["notKept"]] == ["b"]
    described = {entry["path"]: entry for entry in found["changes"]}
    assert {path: (entry["revertible"], entry.get("conflict")) for path, entry in described.items()} == {
        **{"a": (True, True), "b": (False, None), "c": (True, None)}
    }


def test_a_description_is_bounded(workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.command("run", "for n in 1 2 3 4 5; do echo 12345678901234567890 > $n; done")
    monkeypatch.setattr(report, "MAX_DIFFS", 120)
    described = describe(workspace)
    assert [("diff" in entry, "isDiffTruncated" in entry) for entry in described["changes"]] == [
        *[(True, False)] * 2,
        *[(False, True)] * 3,
    ]
    monkeypatch.setattr(report, "DIFF_SECONDS", 0.0)
    monkeypatch.setattr(report, "MAX_ENTRIES", 4)
    described = describe(workspace)
    assert described["more"] == 1 and all("diff" not in entry for entry in described["changes"])


def test_a_preview_names_what_has_no_diff_and_what_a_name_cannot_pass_for(
    workspace: ChangeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_DIFFED", 9)
    odd = "touch $'two\\nlines' z-empty; mkdir z-folder; printf 'a\\0' > $'z\\nbinary'; echo 1234567890 > z-large"
    workspace.command("run", f"touch {{100..280}}; {odd}")
    summary = preview(workspace).summary
    names = summary["note"].partition(": ")[2].removesuffix(".").split(", ")
    expected = [*map(str, range(100, 281)), '"two\\nlines"', '"z\\nbinary"', "z-empty", "z-folder", "z-large"]
    assert names == [f"{name} (removed)" for name in expected]
    assert summary["diff"].splitlines() == [
        'Binary file "z\\nbinary": 2 bytes before, 0 bytes after',
        "Large file z-large: 11 bytes before, 0 bytes after",
    ]
    monkeypatch.setattr(report, "MAX_NAMED", 3)
    assert preview(workspace).summary["note"].endswith(": 100 (removed), 101 (removed), 102 (removed) and 183 more.")
    monkeypatch.setattr(report, "MAX_NAMES", 30)
    assert preview(workspace).summary["note"].endswith(": 100 (removed), 101 (removed) and 184 more.")


def test_what_a_person_had_is_named_before_what_the_run_made(workspace: ChangeWorkspace) -> None:
    (workspace.folder / "z").write_text("1")
    workspace.command("run", "touch a 'b (removed), c'; echo 2 > z")
    named = preview(workspace).summary["note"].partition(": ")[2]
    assert named == 'z (as it was), a (removed), "b (removed), c" (removed).'


def test_an_approval_of_a_revert_is_bound_to_contents_and_modes(workspace: ChangeWorkspace) -> None:
    (workspace.folder / "a").write_text("1")
    workspace.command("run", "echo 2 > a; echo 3 > b")
    file, first = workspace.folder / "a", preview(workspace)
    assert preview(workspace) == first and "refused" not in first.summary["note"]
    for mode, content in ((0o600, "2\n"), (0o644, "4")):
        file.chmod(mode)
        file.write_text(content)
        found = preview(workspace)
        assert found.evidence != first.evidence
        assert "it will be refused. Changed since the run: a. A revert would lose that" in found.summary["note"]
        assert "refused" not in preview(workspace, force=True).summary["note"]
    workspace.command("run", "touch $'b\\n'")
    (workspace.folder / "b\n").write_text("later")
    assert "\n" not in preview(workspace).summary["note"]
