"""A random script has the same effect on a layer, applied afterwards, as directly in a plain copy."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.applied_commands import SERVER, AppliedCommands
from tests.support.budgets import limit_examples
from tests.support.change_workspace import read_tree
from tests.support.ordinary_user import open_user_folder, run_tests
from tests.support.provider_workspace import skip_unless_works

GIT = {
    **{f"GIT_{who}_{what}": "somebody@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2001-02-03T04:05:06Z" for who in ("AUTHOR", "COMMITTER")},
}
VARIABLES = "; ".join(f"export {name}={value}" for name, value in GIT.items())
ENVIRONMENT = {**SERVER, **GIT}
NAMES = st.sampled_from(["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f/g", "sp ace", "-x", "d/.hidden"])
# No time is set twice: git would take a file of the same size, changed within a tick of the clock, for unchanged.
FORMS = [
    # files
    *("echo {n} > {x}", "echo {n} >> {x}", "printf '' > {x}", "cp -a {x} {y}", "cat {x} > {y}", "rm -f {x}"),
    *("truncate -s 3 {x}", "sed -i s/1/2/ {x}", "touch -d @1{n}00 {x}", "echo {n} | tee -a {x} {y}"),
    "echo {n} > .new && mv -f .new {x}",
    # names
    *("mv -T {x} {y}", "mv {x} {y}", "mv -f -T {x} {y}", "ln -s {y} {x}", "ln -sfn {y} {x}", "ln {x} {y}"),
    # folders
    *("mkdir -p {x}", "mkdir {x}", "rmdir {x}", "rm -rf {x}", "cp -r {x} {y}", "find . -name a -delete"),
    "mkdir -p {x} && echo {n} > {x}/new",
    # permissions
    *("chmod 640 {x}", "chmod 755 {x}", "chmod 500 {x}", "chmod 700 {x}", "chmod -R u+rwX {x}", "chmod 751 ."),
    # git
    *("git init -q .", "git add -A", "git add {x}", "git commit -qm {n} --allow-empty", "git commit -qam {n}"),
    *("git checkout -qf -b {n}", "git checkout -qf master", "git stash -q", "git stash pop -q", "git reset -q --hard"),
    *("git mv {x} {y}", "git rm -rqf {x}", "git tag {n}", "git clean -qfd", "git checkout -q {x}", "git gc -q"),
]
LINES = st.tuples(st.sampled_from(FORMS), NAMES, NAMES)
"""A line of a script: what it does, and one or two names."""


def make_script(lines: list[tuple[str, str, str]]) -> str:
    def quote(name: str) -> str:
        return f"'./{name}'"

    return "\n".join(
        f"{{ {form.format(x=quote(x), y=quote(y), n=number)}; }} >/dev/null 2>&1"
        for number, (form, x, y) in enumerate(lines)
    )


SCRIPTS = st.lists(LINES, min_size=1, max_size=14).map(make_script)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that can be removed whatever a script closes in it."""
    with tempfile.TemporaryDirectory(prefix="wap-scripts-") as name:
        yield Path(name)
        subprocess.run(["chmod", "-R", "u+rwx", name], check=False)


def run_directly(script: str, folder: Path) -> None:
    subprocess.run(["bash", "--noprofile", "--norc", "-c", script], cwd=folder, env=ENVIRONMENT, check=False)


def picture(folder: Path) -> Mapping[str, Any]:
    """All names, contents, modes and links; of an index of git, which has inodes in it, what it says."""
    subprocess.run(["chmod", "u+rwx", "."], cwd=folder, check=True)
    found: dict[str, Any] = dict(read_tree(folder))
    if found.pop(".git/index", None):
        for command in ("ls-files -s", "status --porcelain", "stash list", "fsck --no-dangling"):
            done = subprocess.run(
                ["git", *command.split()], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
            )
            found[command] = (done.returncode, done.stdout)
    return found


@given(scene=SCRIPTS, script=SCRIPTS)
@limit_examples(25)
@example(scene="mkdir z; echo 1 > z/a; mkdir y; echo 2 > y/b", script="rm -r z; mv y z; echo 3 > z/c; mkdir y")
@example(scene="mkdir z; echo 1 > z/a; echo 2 > y", script="mv z x; mv y z; mkdir y; mv x y/x")
@example(scene="mkdir -p a/b/c; echo 1 > a/b/c/f; mkdir z", script="mv a x; rm -r x/b/c; mv z x/b/c; mv x/b y")
def test_scripts(scene: str, script: str) -> None:
    skip_unless_works("bubblewrap")
    with open_folder() as base, closing(AppliedCommands(base)) as workspace:
        plain = base / "plain"
        plain.mkdir()
        for folder in (workspace.folder, plain):
            folder.chmod(0o755)
            run_directly(scene.replace("{ ln '", "{ cp '"), folder)  # a layer separates the names of what was there
        assert picture(workspace.folder) == picture(plain)
        workspace.execute(f"{VARIABLES}\n{script}")
        run_directly(script, plain)
        assert picture(workspace.folder) == picture(plain)
        assert workspace.leftovers() == []


def test_as_an_ordinary_user() -> None:
    skip_unless_works("bubblewrap")
    with open_user_folder() as folder:
        run_tests(folder, __file__, "-k", "test_scripts")
