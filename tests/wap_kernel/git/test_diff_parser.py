"""Reading diffs: wherever they are cut off, and whatever they hold, nothing that policy denies is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.git import diff_parser
from wap_kernel.git.local import hardened_env

TABLE = (
    b":100644 100644 1 2 M\0a\0:100644 100644 1 2 R090\0.env\0public\0:100644 100644 1 2 M\0.env\0"
    b"1\t1\ta\x000\t0\t\0.env\0public\x001\t1\t.env\0\0"
)
PATCHES = (
    b"diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n"
    b"diff --git a/.env b/public\nsimilarity index 90%\nrename from .env\nrename to public\n@@ -1 +1 @@\n-SECRET\n"
    b"diff --git a/.env b/.env\nindex 1..2\n--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-SECRET\n+SECRET\n"
    b"diff --cc .env\nindex 1,2..3\n@@@ -1,1 -1,1 +1,1 @@@\n++SECRET\n* Unmerged path .env\n"
)


def may_read(path: str) -> bool:
    return path.rpartition("/")[2] != ".env"


def test_cut_off_anywhere() -> None:
    for end in range(len(TABLE + PATCHES) + 1):
        found = diff_parser.parse_diff((TABLE + PATCHES)[:end], folder=".", may_read=may_read, truncated=True)
        assert "SECRET" not in str(found) and all(file.path == "a" for file in found.files), end


def test_whole() -> None:
    found = diff_parser.parse_diff(TABLE + PATCHES, folder="sub", may_read=may_read)
    assert [(file.path, file.added, file.deleted) for file in found.files] == [("sub/a", 1, 1)]
    assert found.left_out == 2 and found.files[0].patch.endswith("-old\n+new\n")


@given(st.binary(max_size=300), st.integers(0, len(TABLE + PATCHES)))
def test_rubbish_in_the_middle(rubbish: bytes, at: int) -> None:
    data = TABLE + PATCHES
    found = diff_parser.parse_diff(data[:at] + rubbish + data[at:], folder=".", may_read=lambda _: False)
    assert found.files == ()


@given(st.binary(min_size=1, max_size=60).filter(lambda name: b"\0" not in name))
def test_names_as_git_quotes_them(name: bytes) -> None:
    quoted = "".join(f"\\{byte:03o}" for byte in name).encode()
    patch = b'diff --git "a/' + quoted + b'" "b/' + quoted + b'"\nold mode 1\nnew mode 2\n'
    assert diff_parser._parse_names(patch) == (diff_parser.decode_text(name), diff_parser.decode_text(name))


def test_drivers_are_found_by_their_keys() -> None:
    keys = ["filter.a.b.clean", "filter.x", "merge.default", "merge.m.driver", "merge.m.name", "filter.a=b.smudge", ""]
    assert hardened_env.find_drivers(keys) == {("filter", "a.b"), ("merge", "m"), ("filter", "a=b")}
    assert ("filter.a=b.smudge", "") in hardened_env.disable_drivers([("filter", "a=b")])
