"""Every path that bash makes of a line is among those that the line is found to name, or the line is open."""

from __future__ import annotations

import os
import shlex
import subprocess
from posixpath import normpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.policy.commands.named_paths import NamedPaths, Surroundings, find_named_paths

ROOT = "/srv/ws"
SURROUNDINGS = Surroundings(ROOT, ("/workspace", "/link"), {"HOME": ROOT, "PATH": f"/usr/bin:{ROOT}/bin"})


def find(line: str, cwd: str = ".", **environment: str) -> NamedPaths:
    return find_named_paths(line, cwd, SURROUNDINGS, environment)


def names(line: str, path: str, cwd: str = ".") -> bool:
    return f"{ROOT}/{path}" in map(normpath, find(line, cwd).paths)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["C"]), min_size=1)


@given(
    NAMES.filter(lambda name: name not in (".", "..")),
    st.integers(0, 3),
    st.sampled_from(["sh -c", "eval", "env sh -c"]),
)
def test_a_quoted_name_is_found_at_any_depth(name: str, depth: int, wrapper: str) -> None:
    line = f"sh {shlex.quote(name)}"
    for _ in range(depth):
        line = f"{wrapper} {shlex.quote(line)}"
    assert names(line, name)


PIECES = st.sampled_from(
    [
        *(
            "a",
            "b.sh",
            "sub/",
            "./",
            "-",
            "_",
            "''",
            '""',
            "' '",
            r"\ ",
            r"\a",
            "'$x'",
            '"$x"',
            "$x",
            "${x}",
            "$y",
            '"${y}"',
        ),
        *(
            "{a,b}",
            "{a,{b,c}}",
            "{a..c}",
            "{1..12}",
            "$'\\x61'",
            '$"a"',
            "~",
            "$unset",
            "${unset}",
            "$HOME",
            "$PWD",
            "${PWD}",
        ),
        *(
            "$(echo a)",
            "`echo b`",
            "${x:-c}",
            "${x%a}",
            "$((1 + 1))",
            "$1",
            "$#",
            "=",
            ":",
            ",",
            "\\\n",
            "\\$x",
            "#",
            "@",
        ),
    ]
)
ASSIGNMENTS = st.sampled_from(
    ["", "x=a; ", "x='a b'; y=$x; ", "x=sub/; y=b.sh; ", "export x=a y=b; ", "x=a; x=c; ", "IFS=a; "]
)


@given(st.lists(PIECES, min_size=1, max_size=5).map("".join), ASSIGNMENTS)
def test_bash_makes_no_word_that_is_not_found(word: str, assignments: str) -> None:
    root = "/usr/share"
    environment = {"HOME": root, "PATH": os.environ["PATH"]}
    line = f"{assignments}sh {word}"
    shown = f"{assignments}printf '%s\\0' {word}"
    ended = subprocess.run(["bash", "-c", shown], cwd=root, env=environment, capture_output=True, check=False)
    found = find_named_paths(line, ".", Surroundings(root, (), environment))
    if ended.returncode or found.is_open:
        return
    paths = {normpath(path) for path in found.paths}
    for made in filter(None, ended.stdout.decode().split("\0")):
        assert normpath(os.path.join(root, made)) in paths, (line, made)


@given(st.text(max_size=200))
def test_no_text_is_too_odd(text: str) -> None:
    assert all(path.startswith("/") for path in find(text).paths)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "pip install numpy",
            "pip install -U 'numpy>=1.0' pandas==2.1",
            "npm ci",
            "make -j4 all",
            "git pull --rebase",
        ),
        *("sh build.sh", "cd pkg && pip install -e .", "bash < build.sh", "f=build.sh; sh $f", "python3 -m pytest -q"),
        *("sh -c 'sh build.sh'", "find . -name x -exec sh {} +", "pip install x; echo $?", "pip install x | tee log"),
        *(
            "for f in a b; do sh $f; done",
            "uv sync",
            "awk '{print $1}' data.csv",
            "sed -n 1p data.csv",
            "rm -rf $(cat x)",
        ),
        *("conda install -y -c conda-forge numpy", "git clone https://example.org/x.git", "pip install x > log 2>&1"),
    ],
)
def test_an_ordinary_line_names_all_that_it_runs(line: str) -> None:
    assert not find(line).is_open


@pytest.mark.parametrize(
    "line",
    [
        *("sh $(cat list)", "sh `cat list`", "sh $1", "sh ${x}", "sh ${x%.sh}", "x+=a; sh $x", "read x; sh $x"),
        *("xargs sh", "ls | parallel sh", "cat x | sh", "cat x | bash -o pipefail", "cat x | (sh)", "cat x | sh -s a"),
        *(
            "cat x | python3",
            "python3 -c x",
            "python3 -Wignore -c x",
            "perl -ne x",
            "node -e x",
            "ruby -e x",
            "python <<< x",
        ),
        *("awk 'BEGIN {system(x)}'", "sed 1e x", "find -exec sh {} +", "fd x -x sh", "sh <(cat x)", "IFS=x; sh $IFS"),
        *("shopt -s extglob; sh x", "alias a=sh; a x", "printf x > y; sh y", "echo x | tee y; sh y", "sh ~other/x"),
        *("make -C a ../x", "sh {1..12}.sh", "sh -c 'sh $(cat x)'", 'eval "$(cat x)"', "mapfile a < x; sh ${a[0]}"),
        *("sh 'x", "sh x\x00y", f"sh {'$(echo ' * 70}x", "cat x | . /dev/stdin", 'ls "$(sh $(cat x))"'),
    ],
)
def test_a_line_that_computes_names_is_open(line: str) -> None:
    assert find(line).is_open


def test_a_line_with_too_many_words_is_open() -> None:
    assert find(f"sh {' '.join(map(str, range(3000)))}").is_open


@pytest.mark.parametrize(
    ("line", "cwd", "path"),
    [
        ("sh build.sh", "sub", "sub/build.sh"),
        ("sh ../build.sh", "sub", "build.sh"),
        ("sh /workspace/build.sh", "sub", "build.sh"),
        ("sh /workspace/../workspace/build.sh", "sub", "build.sh"),
        ("sh /link/build.sh", ".", "build.sh"),
        ("sh /proc/thread-self/cwd/build.sh", "sub", "sub/build.sh"),
        ("cd sub && sh build.sh", ".", "sub/build.sh"),
        ("cd /workspace/sub && cd deep && sh build.sh", "other", "sub/deep/build.sh"),
        ("cd nowhere; sh build.sh", ".", "build.sh"),
        ("cd && sh build.sh", "sub", "build.sh"),
        ("cd sub; cd -; sh build.sh", ".", "build.sh"),
        ("(cd sub && sh build.sh)", ".", "sub/build.sh"),
        ("command cd sub && sh build.sh", ".", "sub/build.sh"),
        ("tool -Iinclude", ".", "include"),
        ("tool --file=build.sh", ".", "build.sh"),
        ("tool a:build.sh,b", ".", "build.sh"),
        ("tool @build.sh", ".", "build.sh"),
        ("pip install 'x @ file:///workspace/my%20pkg'", ".", "my pkg"),
        ("pip install git+file:///workspace/pkg#egg=x", ".", "pkg"),
        ("uvicorn package.app:main", ".", "package"),
        ("gunicorn app:main", ".", "app.py"),
        ("python3 -m tool.cli", "sub", "sub/tool.py"),
        ("pip install x", ".", "bin/pip"),
        ("make", "sub", "sub/Makefile"),
    ],
)
def test_where_a_name_leads(line: str, cwd: str, path: str) -> None:
    assert names(line, path, cwd)


def test_a_folder_that_a_line_changes_to_is_not_used_as_a_whole() -> None:
    found = find("cd sub && sh build.sh")
    assert f"{ROOT}/sub" in found.folders
    assert f"{ROOT}/sub" not in found.paths
    assert f"{ROOT}/build.sh" not in found.paths
    assert ROOT not in find(". ./env.sh").paths


def test_the_variables_of_a_command_count() -> None:
    assert f"{ROOT}/a/build.sh" in find("sh $d/build.sh", d="a").paths
    assert f"{ROOT}/build.sh" in find("tool", CONFIG="build.sh").paths
    assert not find("sh $d/build.sh", d="a").is_open


def test_a_pattern_is_found_also_in_quotes() -> None:
    assert find("sh *.sh").patterns == (f"{ROOT}/*.sh",)
    assert f"{ROOT}/[ab].sh" in find("sh -c 'sh [ab].sh'").patterns
    assert not find("sh 'a*'").patterns
