"""What is told of a run's changes: enough to decide about a revert, and nothing that the reader may not read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.undo_workspace import Undoable, paths
from wap_kernel.model.operations import RevertRun
from wap_kernel.state.undo import report
from wap_kernel.state.undo.undo import Undo


@pytest.fixture
def undo(tmp_path: Path) -> Iterator[Undoable]:
    undo = Undoable(tmp_path / "ws", tmp_path / "state")
    yield undo
    undo.close()


def test_contents_that_may_not_be_read_are_never_shown(undo: Undoable) -> None:
    (undo.folder / ".env").write_text("SECRET=1\n")
    undo.command("run", "echo SECRET=2 > .env; printf 'a\\0' > binary; echo x > text; mkdir d; ln -s text l")
    described = undo.describe("run", lambda path: path != ".env")
    assert "SECRET" not in str(described)
    assert paths(described) == {
        **{".env": "modified", "binary": "created", "text": "created"},
        **{"d": "folder created", "l": "created"},
    }
    diffs = {entry["path"]: entry.get("diff") for entry in described["changes"]}
    assert diffs == {
        **{".env": None, "d": None, "l": None, "binary": "Binary file binary: 0 bytes before, 2 bytes after\n"},
        "text": "--- a/text\n+++ b/text\n@@ -0,0 +1 @@\n+x\n",
    }


def test_what_was_not_kept_is_named_to_those_only_who_may_know_its_name(tmp_path: Path) -> None:
    undo = Undoable(tmp_path / "ws", tmp_path / "state", per_file=10)
    undo.command("scene", "mkdir -p shut/node_modules; echo 12345678901 > shut/secret; echo 123456789012 > large")
    undo.command("run", "echo 1 > shut/secret")

    def nameable(path: str) -> bool:
        return not path.startswith("shut")

    described = undo.describe("run", lambda _: False, nameable)
    assert described["changes"] == [{"path": "shut/secret", "change": "modified", "revertible": False}]
    assert [item["path"] for item in described["notKept"]] == ["large"]
    (*_, notice) = undo.notices
    assert {*notice.files, *notice.folders} == {"shut/secret", "shut/node_modules", "large"}
    assert notice.visible(nameable).files.keys() == {"large"} and not notice.visible(nameable).folders
    undoing = Undo(undo.snapshots, undo.locks, lambda _: undo.guard)
    assert [item["path"] for item in undoing.preview_losses(nameable)["notKept"]] == ["large"]
    undo.close()


def test_a_description_is_bounded(undo: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    undo.command("run", "for n in 1 2 3 4 5; do echo 12345678901234567890 > $n; done")
    monkeypatch.setattr(report, "MAX_DIFFS", 120)
    described = undo.describe("run")
    assert [("diff" in entry, "isDiffTruncated" in entry) for entry in described["changes"]] == [
        *[(True, False)] * 2,
        *[(False, True)] * 3,
    ]
    monkeypatch.setattr(report, "DIFF_SECONDS", 0.0)
    monkeypatch.setattr(report, "MAX_ENTRIES", 4)
    described = undo.describe("run")
    assert described["more"] == 1 and all("diff" not in entry for entry in described["changes"])


def _foreseen(undo: Undoable, *, force: bool = False) -> report.RevertPreview:
    operation = RevertRun(run="run", force=force)
    return report.preview_revert(undo.snapshots, undo.reverting, operation, lambda _: True, lambda _: True)


def test_a_question_names_what_has_no_diff_and_what_a_name_cannot_pass_for(
    undo: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_DIFFED", 9)
    odd = "touch $'two\\nlines' z-empty; mkdir z-folder; printf 'a\\0' > $'z\\nbinary'; echo 1234567890 > z-large"
    undo.command("run", f"touch {{100..280}}; {odd}")
    told = _foreseen(undo).summary
    names = told["note"].partition(": ")[2].removesuffix(".").split(", ")
    expected = [*map(str, range(100, 281)), '"two\\nlines"', '"z\\nbinary"', "z-empty", "z-folder", "z-large"]
    assert names == [f"{name} (removed)" for name in expected]
    assert told["diff"].splitlines() == [
        'Binary file "z\\nbinary": 2 bytes before, 0 bytes after',
        "Large file z-large: 11 bytes before, 0 bytes after",
    ]
    monkeypatch.setattr(report, "MAX_NAMED", 3)
    assert _foreseen(undo).summary["note"].endswith(": 100 (removed), 101 (removed), 102 (removed) and 183 more.")
    monkeypatch.setattr(report, "MAX_NAMES", 30)
    assert _foreseen(undo).summary["note"].endswith(": 100 (removed), 101 (removed) and 184 more.")


def test_what_a_person_had_is_named_before_what_the_run_made(undo: Undoable) -> None:
    (undo.folder / "z").write_text("1")
    undo.command("run", "touch a 'b (removed), c'; echo 2 > z")
    named = _foreseen(undo).summary["note"].partition(": ")[2]
    assert named == 'z (as it was), a (removed), "b (removed), c" (removed).'


def test_an_agreement_to_a_revert_is_to_contents_and_modes_and_what_stands_in_its_way(undo: Undoable) -> None:
    (undo.folder / "a").write_text("1")
    undo.command("run", "echo 2 > a; echo 3 > b")
    file, first = undo.folder / "a", _foreseen(undo)
    os.utime(file, (1, 1))
    (undo.folder / "same").write_text("2\n")
    (undo.folder / "same").replace(file)
    assert _foreseen(undo) == first and "refused" not in first.summary["note"]
    for mode, content in ((0o600, "2\n"), (0o644, "4")):
        file.chmod(mode)
        file.write_text(content)
        foreseen = _foreseen(undo)
        assert foreseen.evidence != first.evidence
        assert "it will be refused. Changed since the run: a. A revert would lose that" in foreseen.summary["note"]
        assert "refused" not in _foreseen(undo, force=True).summary["note"]
    undo.command("run", "touch $'b\\n'")
    (undo.folder / "b\n").write_text("later")
    assert "\n" not in _foreseen(undo).summary["note"]
