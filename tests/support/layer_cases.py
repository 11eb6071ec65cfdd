"""Scripts that change a workspace, and what each of them changed, as data."""

from __future__ import annotations

from pathlib import Path

BEFORE = {
    "file": "content\n",
    "other": "other\n",
    "script": "#!/bin/sh\n",
    "a/one": "1\n",
    "a/two": "2\n",
    "a/b/three": "3\n",
    "a/b/c/four": "4\n",
    "z/last": "z\n",
}


def fill(folder: Path) -> None:
    """Make the files that the scripts change."""
    for name, text in BEFORE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "script").chmod(0o755)
    (folder / "link").symlink_to("file")


CASES: dict[str, tuple[str, list[str]]] = {
    # nothing
    "nothing": ("true", []),
    "reading": ("cat file a/one; ls -lR; find . -newer file", []),
    "made and removed": ("mkdir -p new/deep; touch new/deep/x; rm -r new", []),
    "written as it was": ("cp -p file t; cat t > file; touch -r t file; rm t", []),
    "moved away and back": ("mv file x; mv x file", []),
    "removed and made again": ("cp -p file x; rm file; mv x file", []),
    "a mode and back": ("chmod 600 file a; chmod 644 file; chmod 755 a", []),
    # files
    "a file": ("echo x > new", ["created new"]),
    "a file in a folder": ("echo x > a/b/new", ["created a/b/new"]),
    "more content": ("echo x >> file", ["changed file"]),
    "other content of the same size": ("echo CONTENT > file", ["changed file"]),
    "one byte": ("printf X | dd of=file bs=1 seek=3 conv=notrunc status=none", ["changed file"]),
    "emptied": (": > file", ["changed file"]),
    "replaced by rename": ("cp -p other x; mv x file", ["changed file"]),
    "removed": ("rm file", ["deleted file"]),
    "a file that moved": ("mv file new", ["deleted file", "created new"]),
    "over another": ("mv file other", ["deleted file", "changed other"]),
    "exchanged": ("mv file x; mv other file; mv x other", ["changed file", "changed other"]),
    "a mode": ("chmod 600 file", ["mode file"]),
    "a mode and content": ("chmod 600 file; echo x > file", ["changed file"]),
    "touched": ("touch -d 2001-01-01 file", ["touched file"]),
    "written at another time": ("cp file t; sleep 0.02; cat t > file; rm t", ["touched file"]),
    "a hard link": ("ln file hard", ["created hard"]),
    "a hard link that was written": ("ln file hard; echo x >> hard", ["changed file", "created hard"]),
    # links
    "a link": ("ln -s nowhere new", ["created new"]),
    "another target": ("ln -sf other link", ["changed link"]),
    "the same target": ("ln -sf file x; mv x link", []),
    "a link becomes a file": ("rm link; echo x > link", ["changed link"]),
    "a file becomes a link": ("rm file; ln -s other file", ["changed file"]),
    "a link is removed": ("rm link", ["deleted link"]),
    # folders
    "a folder": ("mkdir new", ["created new"]),
    "folders with content": (
        "mkdir -p n/m; echo x > n/m/x; ln -s m n/l",
        ["created n", "created n/l", "created n/m", "created n/m/x"],
    ),
    "a mode of a folder": ("chmod 700 a/b", ["mode a/b"]),
    "the mode of the workspace": ("chmod 701 .", ["mode ."]),
    "a folder removed": ("rm -r a/b", ["deleted a/b", "deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three"]),
    "a folder emptied": ("rm -r a/b/*", ["deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three"]),
    "a folder made anew": (
        "rm -r a/b; mkdir a/b; echo new > a/b/new; echo 3 > a/b/three",
        ["deleted a/b/c", "deleted a/b/c/four", "created a/b/new", "touched a/b/three"],
    ),
    "a folder made anew below one": (
        "rm -r a; mkdir -p a/b; echo x > a/b/x",
        ["deleted a/one", "deleted a/two", "deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three", "created a/b/x"],
    ),
    "a folder becomes a file": (
        "rm -r a/b; echo x > a/b",
        ["deleted a/b/c", "deleted a/b/c/four", "deleted a/b/three", "changed a/b"],
    ),
    "a folder becomes a link": ("rm -r z; ln -s a z", ["deleted z/last", "changed z"]),
    "a file becomes a folder": ("rm file; mkdir file; touch file/x", ["changed file", "created file/x"]),
    "a link becomes a folder": ("rm link; mkdir link; touch link/x", ["changed link", "created link/x"]),
    "a folder becomes a file and a folder again": (
        "rm -r z; echo x > z; rm z; mkdir z; echo z > z/last; echo n > z/new",
        ["touched z/last", "created z/new"],
    ),
    "a file becomes a folder and a file again": ("rm file; mkdir file; rmdir file; echo x > file", ["changed file"]),
    # names
    "odd names": (
        "touch $'new\\nline' $'\\xff' '*' -- '-x'; mkdir '...'; touch .../x",
        ["created *", "created -x", "created ...", "created .../x", "created new\nline", "created \udcff"],
    ),
}  # fmt: skip


MOVES: dict[str, tuple[str, list[str]]] = {
    "a folder": ("mv a new", ["moved new from a"]),
    "into another": ("mv a/b z/b", ["moved z/b from a/b"]),
    "out of another": ("mv a/b/c c", ["moved c from a/b/c"]),
    "twice": ("mv a x; mv x y", ["moved y from a"]),
    "there and back": ("mv a x; mv x a", []),
    "with changes in it": ("mv a x; echo n > x/new; rm x/one", ["moved x from a", "created x/new", "deleted x/one"]),
    "with changes before": ("echo n > a/new; rm a/one; mv a x", ["moved x from a", "created x/new", "deleted x/one"]),
    "one in the other": ("mv a/b/c z/c; mv a/b z/b", ["moved z/c from a/b/c", "moved z/b from a/b"]),
    "a folder in a moved folder": ("mv a x; mv x/b y", ["moved x from a", "moved y from a/b"]),
    "renamed within a moved folder": ("mv a x; mv x/b x/y", ["moved x from a", "moved x/y from a/b"]),
    "into a new one": ("mkdir new; mv a new/a", ["created new", "moved new/a from a"]),
    "another takes its path": ("mv a x; mv z a", ["moved a from z", "moved x from a"]),
    "a new one takes its path": ("mv a x; mkdir a; echo n > a/new", ["created a", "created a/new", "moved x from a"]),
    "a file takes its path": ("mv a x; echo n > a", ["created a", "moved x from a"]),
    "exchanged": ("mv a x; mv z a; mv x z", ["moved a from z", "moved z from a"]),
    "its mode": ("mv a x; chmod 700 x", ["moved x from a"]),
    "moved and removed": (
        "mv z x; rm -r x",
        ["deleted z", "deleted z/last"],
    ),
    "over a removed folder": ("rm -r z; mv a z", ["deleted z", "deleted z/last", "moved z from a"]),
    "over a removed file": ("rm file; mv z file", ["deleted file", "moved file from z"]),
    "over a folder in a moved one": (
        "mv a x; rm -r x/b/c; mv z x/b/c",
        ["moved x from a", "deleted x/b/c", "deleted x/b/c/four", "moved x/b/c from z"],
    ),
    "away and back below a moved one": ("mv a x; mv x/b y; mv y x/b", ["moved x from a"]),
}
"""Folders that moved. Only root gets to know: for others the kernel refuses to rename, and `mv` copies."""
