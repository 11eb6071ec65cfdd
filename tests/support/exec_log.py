"""Runs scripts under bubblewrap and tells, script by script, which programs were really executed, with their words."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

MISSING = [program for program in ("bwrap", "strace", "bash", "git") if not shutil.which(program)]
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

_MARK = "wap-script"
_DRIVER = """
import json, os, subprocess, sys
for number, script in enumerate(json.load(open(sys.argv[1]))):
    os.chdir(sys.argv[2])
    try:
        subprocess.run(["wap-script", "--noprofile", "--norc", "-c", "--", script], executable="/bin/bash", timeout=10,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        pass
"""
_CALL = re.compile(r'execve\("([^"]*)", \[(.*?)\], 0x[0-9a-f]+')
_WORD = re.compile(r'"([^"]*)"')

Execution = tuple[str, tuple[str, ...]]
"""The file and its words."""


def executed(
    scripts: Sequence[str], folder: Path, workspace: Path, environment: Mapping[str, str]
) -> list[list[Execution]]:
    """`workspace` can be written in the sandbox, and its contents are not restored between the scripts."""
    (folder / "scripts.json").write_text(json.dumps(list(scripts)))
    (folder / "driver.py").write_text(_DRIVER)
    log = folder / "log"
    log.mkdir()
    options = [
        "--unshare-all",
        "--unshare-user",
        "--cap-drop",
        "ALL",
        "--die-with-parent",
        "--new-session",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
    ]
    options += ["/proc", "--bind", str(workspace), str(workspace), "--bind", str(log), str(log), "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    trace = [shutil.which("strace") or "", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "65536", "-o", str(log / "trace")]
    trace += ["-e", "trace=execve", "-e", "signal=none"]
    driver = [sys.executable, "-I", str(folder / "driver.py"), str(folder / "scripts.json"), str(workspace)]
    subprocess.run(["bwrap", *options, "--", *trace, *driver], check=True, timeout=600)
    found = _by_script((log / "trace").read_text())
    assert len(found) == len(scripts)
    return found


def _by_script(trace: str) -> list[list[Execution]]:
    """The scripts run one after the other, so what is logged after a script's shell is its doing."""
    found: list[list[Execution]] = []
    waiting: dict[str, str] = {}
    for line in trace.splitlines():
        pid, _, call = line.partition(" ")
        if call.rstrip().endswith("<unfinished ...>"):
            waiting[pid] = call
            continue
        if "execve resumed>" in call:
            call = waiting.pop(pid, "") + call.partition("resumed>")[2]
        match = _CALL.search(call)
        if match is None or not call.rstrip().endswith("= 0"):
            continue
        words = tuple(map(_decoded, _WORD.findall(match.group(2))))
        if words[0] == _MARK:
            found.append([])
        elif found:
            found[-1].append((_decoded(match.group(1)), words))
    return found


def _decoded(text: str) -> str:
    return bytes.fromhex(text.replace("\\x", "")).decode(errors="surrogateescape")
