"""The network of a rule is for the tool that was meant, and is remembered only for what an agent cannot change."""

from __future__ import annotations

import pytest

from wap_kernel.model.operations import RunCommand
from wap_kernel.model.paths import Access, PathAccess
from wap_kernel.policy import presets
from wap_kernel.policy.decide import Facts, Judgement, judge
from wap_kernel.policy.effective import EffectivePolicy

NAMES = "pip pip3 conda npm yarn pnpm uv git cat tail tee echo cp mv ln mkdir touch cd sed env time timeout xargs sort"
PROGRAMS = {name: f"/usr/bin/{name}" for name in NAMES.split()}
PROGRAMS |= {"python3": "/usr/bin/python3.11", "python": "/usr/bin/python3.9", "/usr/bin/pip": "/usr/bin/pip"}


def judge_line(line: str, *, layered: bool) -> Judgement:
    facts = Facts(
        accesses=(PathAccess(".", Access.READ),),
        confined=True,
        resolve=PROGRAMS.get,
        home="/home/u",
        root="/ws",
        layered=layered,
    )
    return judge(RunCommand(command=line), EffectivePolicy((presets.load_preset("standard"),)), facts)


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize(
    ("line", "network", "grantable"),
    [
        ("pip install numpy", True, True),
        ("/usr/bin/pip install numpy", True, False),  # word for word, and a grant with the network is for packages
        ("pip install -U numpy 2>&1 | tail -5", True, True),
        ("time pip install numpy", True, True),
        ("conda install numpy", True, True),
        ("git fetch", True, True),
        ("git push -u origin topic", True, True),
        ("mkdir -p sub && git clone https://host/x sub/x", True, True),
        ("pip install numpy | tee log", True, True),
        ("pip install numpy > log 2>&1", True, True),
        # What an agent wrote is not the tool.
        ("./pip install numpy", False, True),
        ("bin/pip install numpy", False, True),
        (".venv/bin/pip install numpy", False, True),
        ("/ws/pip install numpy", False, True),
        ("./python3 -m pip install numpy", False, True),
        ("absent/npm install", False, True),
        # A module of the workspace may have the name of the tool.
        ("python3 -m pip install numpy", True, False),
        ("python3 -mpip install numpy", True, False),
        ("python -m pip install numpy", False, False),  # 3.9 knows no safe path
        ("env -u PYTHONSAFEPATH python3 -m pip install numpy", False, False),
        ("PYTHONSAFEPATH= python3 -m pip install numpy", False, False),
        ("PYTHONPATH=. pip install numpy", False, False),
        # These tools run what files of the workspace say, today or later.
        ("npm install", True, False),
        ("npm install lodash", True, False),
        ("yarn add x", True, False),
        ("uv add x", True, False),
        ("uv sync", True, False),
        ("pip install .", True, False),
        ("pip install -e .", True, False),
        ("pip install -r requirements.txt", True, False),
        ("pip download ./x", True, False),
        # An option names a program.
        ("git fetch --upload-pack=./evil .", False, False),
        ("git fetch --upload-p ./evil .", False, False),
        ("git clone -u ./evil . x", False, False),
        ("git -C sub clone -c core.sshCommand=./evil u x", False, False),
        ("git clone --config core.sshCommand=./evil u x", False, False),
        # A neighbour writes what the tool obeys, by a link for example.
        ("cp evil ~/.npmrc && npm install x", False, False),
        ("cp evil link/.gitconfig && git fetch", False, True),
        ("ln -s evil x && git fetch", False, True),
        ("echo x > link/.gitconfig; git fetch", False, True),
        ("echo x | tee link/.gitconfig; git fetch", False, True),
        ("git fetch & tee link/.gitconfig < evil", False, True),
    ],
)
def test_lines(line: str, network: bool, grantable: bool, layered: bool) -> None:
    judgement = judge_line(line, layered=layered)
    assert judgement.verdict.kind.value == "ask"
    assert judgement.verdict.network is network
    assert judgement.grant is None or grantable
    assert judgement.grant is not None or not grantable or "|" in line or "<" in line


def test_a_person_is_told_why_there_is_no_network() -> None:
    assert "agent can write" in str(judge_line("./pip install numpy", layered=True).verdict.suggestion)
    assert "module of the workspace" in str(judge_line("python -m pip install x", layered=True).verdict.suggestion)
    assert "another command" in str(judge_line("cp a b && git fetch", layered=True).verdict.suggestion)
