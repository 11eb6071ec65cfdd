"""Apply what a script changed on a real overlay: the same tree as directly, conflicts, groups, refusals."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.change_workspace import ATTACK, PREFIX, SCENE, ChangeWorkspace, make_state_folder, read_tree
from tests.support.ordinary_user import open_user_folder, run_python
from wap_kernel.model.changes import ChangeKind, ChangeSet
from wap_kernel.state.changes import image_store

REPOSITORY = """
git init -q --template= .; git config user.name n; git config user.email e
echo 1 > f; git add f; git commit -qm first
"""


@pytest.fixture(params=["near", "far state", "far layer"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChangeWorkspace]:
    """A workspace with state and layers on its filesystem, or one of them on another one."""
    with (
        make_state_folder(tmp_path, is_far=request.param == "far state") as state,
        tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere,
    ):
        base = Path(elsewhere) if request.param == "far layer" else None
        workspace = ChangeWorkspace(tmp_path / "w", state, base=base)
        yield workspace
        assert workspace.leftovers() == []
        workspace.close()


def compare(workspace: ChangeWorkspace, tmp_path: Path, *scripts: str) -> None:
    """Check that the folder is as after the scripts were run directly."""
    plain = tmp_path / "plain"
    plain.mkdir()
    plain.chmod(0o755)
    for script in scripts:
        subprocess.run(["bash", "-ec", script], cwd=plain, check=True, capture_output=True)
    assert workspace.tree() == read_tree(plain)


def test_the_tree_is_the_same_as_directly(workspace: ChangeWorkspace, tmp_path: Path) -> None:
    scene = SCENE.replace("git init -q vendor/lib", "mkdir -p vendor/lib/.git; touch vendor/lib/.git/config")
    workspace.run_directly(scene)
    applied = workspace.command("run", ATTACK)
    assert applied.conflicts == () and applied.unkept == ()
    compare(workspace, tmp_path, scene, ATTACK)


def test_no_mark_of_the_overlay_and_no_setuid_bit_is_left(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir d; echo 1 > d/f; echo 1 > g; mkdir e; echo 1 > e/f")
    workspace.command(
        "run",
        "echo 2 > d/f; rm -r e; mkdir e; echo n > e/n; chmod 6755 g; cp g h; chmod 6755 h; mkdir s; chmod 6755 s;"
        "chmod 444 e/n",
    )
    for path in [workspace.folder, *workspace.folder.rglob("*")]:
        assert not [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(PREFIX)]
        assert not path.stat().st_mode & stat.S_ISUID
    assert not (workspace.folder / "g").stat().st_mode & stat.S_ISGID
    assert not (workspace.folder / "h").stat().st_mode & stat.S_ISGID
    assert (workspace.folder / "s").stat().st_mode & stat.S_ISGID
    assert sorted(os.listdir(workspace.folder / "e")) == ["n"]


@pytest.mark.parametrize(
    ("script", "foreign", "conflicts"),
    [
        ("echo c > f", "echo mine > f", ["f"]),
        ("echo c > f", "echo mine > s; mv s f", ["f"]),
        ("echo c > f", "rm f", ["f"]),
        ("rm f", "echo mine > f", ["f"]),
        ("echo c > n", "echo mine > n", ["n"]),
        ("mkdir n; echo c > n/f", "mkdir n; echo mine > n/f", ["n/f"]),
        ("rm -r d", "echo mine > d/new", ["d/new"]),
        ("rm -r d", "echo mine > d/x", ["d/x"]),
        ("rm -r d", "mv old d/old", ["d", "d/old"]),  # the files in it did not change
        ("rm -r d; echo c > d", "echo mine > d/x", ["d/x"]),
        ("ln -sfn f l", "ln -sfn d l", ["l"]),
        ("chmod 600 f", "chmod 640 f", ["f"]),
    ],
)
@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_person_changed_meanwhile_stays_and_is_named(
    workspace: ChangeWorkspace, script: str, foreign: str, conflicts: list[str], atomic: bool
) -> None:
    workspace.run_directly("echo f > f; mkdir d old; echo x | tee d/x > old/y; ln -s x l; echo other > other")
    layer = workspace.run_on_layer(f"{script}; echo changed > other")
    changes = layer.read()
    workspace.run_directly(foreign)
    mine = workspace.tree()
    applied = workspace.apply("run", layer, atomic=atomic, changes=changes)
    assert list(applied.conflicts) == conflicts
    changed = (stat.S_IFREG, 0o644, b"changed\n")
    assert workspace.tree() == (mine if atomic else {**mine, "other": changed})
    left = ChangeSet(tuple(change for change in changes if atomic or change.path != "other"))
    again = workspace.apply("again", layer, atomic=atomic, overwrite=[*conflicts, "d"], changes=left)
    assert again.conflicts == ()
    assert workspace.revert("again", "revert").left is None
    assert workspace.tree() == (mine if atomic else {**mine, "other": changed})


def test_a_folder_that_both_created_is_merged(workspace: ChangeWorkspace) -> None:
    layer = workspace.run_on_layer("mkdir -p n/a; echo c > n/a/c; echo c > n/c")
    changes = layer.read()
    workspace.run_directly("mkdir -p n/a; echo mine > n/a/m")
    assert workspace.apply("run", layer, changes=changes).conflicts == ()
    assert sorted(path for path in workspace.tree() if path.startswith("n")) == ["n", "n/a", "n/a/c", "n/a/m", "n/c"]


def test_a_deletion_of_what_is_gone_already_is_no_conflict(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo f > f; mkdir d; echo x > d/x")
    layer = workspace.run_on_layer("rm f; rm -r d")
    workspace.run_directly("rm f; rm -r d")
    assert workspace.apply("run", layer).conflicts == ()


@pytest.mark.parametrize("atomic", [False, True])
def test_a_save_at_any_moment_of_applying_is_never_lost(tmp_path: Path, atomic: bool) -> None:
    """Save a file in place or by a rename after each step; then either the conflict is named or the save came last."""
    moment, is_over = 0, False
    while not is_over:
        for in_place in (True, False):
            base = tmp_path / f"{moment}-{in_place}"
            base.mkdir()
            left = [moment]

            def save(step: str, base: Path = base, left: list[int] = left, in_place: bool = in_place) -> None:
                if left[0] == 0:
                    target = base / "w/f"
                    saved = target if in_place else base / "w/saved"
                    saved.write_text("mine")
                    saved.replace(target)
                left[0] -= 1

            workspace = ChangeWorkspace(base / "w", base / "state", step=save)
            workspace.run_directly("echo old > f; echo old > a; echo old > z")
            layer = workspace.run_on_layer("for f in a f z; do echo command > $f; done; echo n > n")
            applied = workspace.apply("run", layer, atomic=atomic)
            is_over = left[0] >= 0
            content = (workspace.folder / "f").read_text()
            assert content == ("command\n" if is_over else "mine")
            if applied.conflicts:
                assert applied.conflicts == ("f",)
                others = {(workspace.folder / name).read_text() for name in "az"}
                assert others == ({"old\n"} if atomic else {"command\n"})
            workspace.close()
            shutil.rmtree(base)
        moment += 1
    assert moment > 8


# -- refused and rewritten


def test_what_is_refused_is_not_applied_and_stays_in_the_layer(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("mkdir -p d/kept; echo 1 > d/kept/secret; echo 1 > d/x; echo 1 > f")
    layer = workspace.run_on_layer(
        "mkdir -p new/hooks/sub; echo bad > new/hooks/post; echo ok > new/hooks/sub/ok; echo ok > new/ok; echo 2 > f;"
        "rm -r d; chmod 555 new/hooks"
    )
    refused = {"new/hooks/post", "d/kept/secret", "f"}
    assert workspace.apply("run", layer, refused=refused).conflicts == ()
    assert sorted(workspace.tree()) == [
        *(".", "d", "d/kept", "d/kept/secret", "f", "new", "new/hooks", "new/hooks/sub", "new/hooks/sub/ok", "new/ok")
    ]
    assert workspace.tree()["new/hooks"][1] == 0o555
    assert (workspace.folder / "f").read_text() == "1\n"
    assert (layer.upper / "new/hooks/post").read_text() == "bad\n"
    assert workspace.revert("run", "revert").left is None


def test_a_file_that_policy_cleaned_gets_its_clean_content(workspace: ChangeWorkspace) -> None:
    workspace.run_directly("echo old > config; chmod 600 config")
    layer = workspace.run_on_layer("echo bad > config; mkdir -p r/.git; echo bad > r/.git/config")
    workspace.apply("run", layer, rewritten={"config": b"clean\n", "r/.git/config": b"clean\n"})
    assert {(workspace.folder / name).read_text() for name in ("config", "r/.git/config")} == {"clean\n"}
    assert stat.S_IMODE((workspace.folder / "config").stat().st_mode) == 0o600


# -- repositories


def test_a_repository_is_applied_as_a_whole_or_not_at_all(workspace: ChangeWorkspace) -> None:
    workspace.run_directly(REPOSITORY)
    layer = workspace.run_on_layer("echo 2 > f; git commit -qam second; echo n > n")
    workspace.run_directly("git config user.name mine; git branch other; git commit -q --allow-empty -m mine")
    mine = {path: entry for path, entry in workspace.tree().items() if path.startswith(".git")}
    applied = workspace.apply("run", layer)
    assert applied.conflicts and all(path.startswith(".git/") for path in applied.conflicts)
    assert {path: entry for path, entry in workspace.tree().items() if path.startswith(".git")} == mine
    assert (workspace.folder / "n").exists() and (workspace.folder / "f").read_text() == "2\n"
    subprocess.run(["git", "fsck", "--strict"], cwd=workspace.folder, check=True, capture_output=True)


def test_objects_come_first_and_references_last(tmp_path: Path) -> None:
    workspace = ChangeWorkspace(tmp_path / "w", tmp_path / "state")
    workspace.run_directly(REPOSITORY)
    workspace.command("run", "echo 2 > f; git checkout -qb new/branch; git commit -qam second; git gc -q")
    made = [
        row for row in workspace.history.log.read("run") if row.change.kind in (ChangeKind.CREATED, ChangeKind.CHANGED)
    ]
    order = [row.path.split("/")[1] for row in made if row.path.startswith(".git/")]
    ranks = [{"objects": 0, "HEAD": 2, "refs": 2, "packed-refs": 2}.get(name, 1) for name in order]
    assert ranks == sorted(ranks) and {0, 1, 2} <= set(ranks)
    subprocess.run(["git", "fsck", "--strict"], cwd=workspace.folder, check=True, capture_output=True)
    workspace.revert("run", "revert")
    subprocess.run(["git", "fsck", "--strict"], cwd=workspace.folder, check=True, capture_output=True)
    workspace.close()


# -- limits of another filesystem


def test_what_cannot_be_stored_is_named_and_left_unless_its_loss_is_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "MAX_COPIED_FILE_BYTES", 10)
    with make_state_folder(tmp_path, is_far=True) as state:
        workspace = ChangeWorkspace(tmp_path / "w", state)
        workspace.run_directly(
            "echo small > small; seq 100 > large; mkdir d; seq 100 > d/large; echo s > d/small; seq 99 > t"
        )
        before = workspace.tree()
        layer = workspace.run_on_layer("echo 1 > small; echo 1 > large; rm -r d; touch -d 2001-01-01 t; chmod 600 t")
        unkept = ("d/large", "d/small", "large")  # a folder is stored whole or not at all
        assert tuple(workspace.history.find_unkept(layer.read())) == unkept
        assert workspace.apply("run", layer, atomic=True).unkept == unkept
        assert workspace.tree() == before
        assert workspace.apply("run", layer).unkept == unkept
        assert [path for path in before if workspace.tree().get(path) != before[path]] == ["small", "t"]
        assert workspace.apply("run", layer, allows_loss=True).unkept == ()
        assert sorted(workspace.tree()) == [".", "large", "small", "t"]
        reverted = workspace.revert("run", "revert", force=True)
        assert reverted.left == ["d", "large"] and (workspace.folder / "small").read_text() == "small\n"
        workspace.close()


def test_nothing_is_too_large_on_one_filesystem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_store, "MAX_COPIED_FILE_BYTES", 10)
    workspace = ChangeWorkspace(tmp_path / "w", tmp_path / "state")
    workspace.run_directly("seq 100 > large")
    layer = workspace.run_on_layer("echo 1 > large")
    assert workspace.history.find_unkept(layer.read()) == []
    assert workspace.apply("run", layer).unkept == ()
    workspace.close()


# -- random scripts

_NAMES = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e", "d", "f/g"])
# No second names of files: an overlay separates them when one is changed.
_FORMS = [
    *("echo {n} > {x}", "echo {n} >> {x}", "mkdir -p {x}", "rm -rf {x}", "ln -sfn {y} {x}", "mv -T {x} {y}"),
    *("cp -a {x} {y}", "chmod 640 {x}", "chmod 500 {x}", "chmod 700 {x}", "sed -i s/1/2/ {x}"),
    "touch -d 2001-01-01 {x}",
]
_LINES = st.tuples(st.sampled_from(_FORMS), _NAMES, _NAMES)
_SCRIPTS = st.lists(_LINES, min_size=1, max_size=12).map(
    lambda lines: "\n".join(
        f"{line.format(x=x, y=y, n=number)} 2>/dev/null || true" for number, (line, x, y) in enumerate(lines)
    )
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(scene=_SCRIPTS, scripts=st.lists(_SCRIPTS, min_size=1, max_size=2))
def test_random_scripts_have_the_same_effect_and_are_reverted(scene: str, scripts: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        base = Path(folder)
        workspace = ChangeWorkspace(base / "w", base / "state")
        try:
            workspace.run_directly(scene)
            before = workspace.tree()
            for script in scripts:
                applied = workspace.command("run", script)
                assert applied.conflicts == ()
            compare(workspace, base, scene, *scripts)
            assert workspace.revert("run", "revert").left is None
            assert workspace.tree() == before
        finally:
            workspace.close()
            subprocess.run(["chmod", "-R", "u+rwx", folder], check=False)


def test_an_ordinary_user_gets_the_same() -> None:
    """Run the main cases as another user: closed folders, user namespaces, other attributes."""
    program = """
import sys
from pathlib import Path
from tests.support.ordinary_user import open_user_folder, run_python
from tests.support.change_workspace import ATTACK, SCENE, ChangeWorkspace, read_tree
import subprocess
base = Path(sys.argv[1])
workspace = ChangeWorkspace(base / "w", base / "state")
workspace.run_directly(SCENE)
before = workspace.tree()
assert workspace.command("run", ATTACK).conflicts == ()
after = workspace.tree()
(base / "plain").mkdir()
subprocess.run(["bash", "-ec", SCENE + ATTACK], cwd=base / "plain", check=True)
plain = read_tree(base / "plain")
assert {path: entry for path, entry in after.items() if ".git/" not in path} == {
    path: entry for path, entry in plain.items() if ".git/" not in path}
for undone, into, expected in (("run", "a", before), ("a", "b", after), ("run", "c", before)):
    assert workspace.revert(undone, into).left is None
    assert workspace.tree() == expected
workspace.command("closed", "mkdir -p q/r; echo 1 > q/r/f; chmod 555 q/r; chmod 0 q")
assert workspace.revert("closed", "open").left is None
assert workspace.tree() == before
print("same")
"""
    with open_user_folder() as folder:
        found = run_python(folder, "-c", program, str(folder))
        assert found.stdout == "same\n", found.stderr


def test_the_mark_of_a_deletion_is_no_file(workspace: ChangeWorkspace) -> None:
    """A person deletes the folder in which a command deleted a file: no device is left in the workspace."""
    workspace.run_directly("mkdir -p d/e; echo x | tee d/x d/e/x > d/y")
    layer = workspace.run_on_layer("rm d/x d/e/x; echo new > d/new; chmod 500 d/e")
    workspace.run_directly("rm -r d")
    workspace.apply("run", layer)
    assert sorted(workspace.tree()) == [".", "d", "d/e", "d/new"]


@pytest.mark.parametrize("script", ["rm -r d", "rm -r d; mkdir d; echo c > d/c", "rm -r d; echo c > d"])
def test_a_folder_that_a_person_moved_into_a_deleted_one_stays(workspace: ChangeWorkspace, script: str) -> None:
    """Its files have not changed since, so only the folder shows it."""
    workspace.run_directly("mkdir d old; echo x | tee d/x > old/y")
    layer = workspace.run_on_layer(script)
    workspace.run_directly("mv old d/old")
    assert "d/old" in workspace.apply("run", layer).conflicts
    assert (workspace.folder / "d/old/y").read_text() == "x\n"
