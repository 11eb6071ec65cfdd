"""Approvals for the runs of a cell, and who decides them."""

from __future__ import annotations

import json

import pytest

from scripts.demo import Server
from tests.support.python_kernels import AGREED, ASKS, Kernel, ask, waiting_run


def test_a_question_is_answered_in_the_next_cell(kernel: Kernel) -> None:
    cell = kernel.run(f"%wap sh {ASKS}")
    run_id = kernel.value("_.run_id")
    assert f"%wap approve {run_id}" in cell.text
    assert cell.kinds == ["display_data"]
    assert run_id in kernel.run("%wap").text
    cell = kernel.run("%wap approve")
    assert cell.kinds == ["display_data"] and AGREED in cell.text
    assert kernel.value("[_.run_id, _.status]") == [run_id, "completed"]
    assert "No run waits for approval" in kernel.run("%wap approve").text


def test_a_denial_says_why(kernel: Kernel) -> None:
    kernel.run(f"%wap sh {ASKS}")
    assert "not on a Friday" in kernel.run("%wap deny not on a Friday").text
    assert not kernel.value("_.ok")


def test_the_person_at_the_keyboard_approves_the_cell(kernel: Kernel) -> None:
    cell = kernel.run(f"%%wap --yes\n- {{type: shell, command: {json.dumps(ASKS)}}}\n")
    assert AGREED in cell.text and kernel.value("_.ok")


@pytest.mark.parametrize(("decision", "ends"), [("approved", True), ("denied", False)])
def test_another_client_decides_while_the_cell_waits(kernel: Kernel, server: Server, decision: str, ends: bool) -> None:
    begun = kernel.start(f"%wap sh --wait 60 {ASKS}")
    run = waiting_run(server)
    kernel.until(begun, f"%wap approve {run['runId']}")
    sent = {"approvalId": run["pendingApproval"]["approvalId"], "decision": decision}
    ask(server, f"wap/runs/{run['runId']}/decision", sent)
    cell = kernel.finish(begun)
    assert cell.kinds == ["display_data"]
    assert "%wap approve" not in cell.text, "the question has been replaced"
    assert kernel.value("[_.status, _.ok]") == ["completed", ends]


def test_nobody_decides_in_time(kernel: Kernel) -> None:
    cell = kernel.run(f"%wap sh --wait 0.3 {ASKS}")
    assert "%wap approve" in cell.text
    assert kernel.value("_.status") == "awaiting_approval"


def test_always_is_remembered_until_it_is_revoked(kernel: Kernel) -> None:
    asks = "%wap write .vscode/settings.json {}"  # a file that an editor obeys
    kernel.run(asks)
    kernel.run("%wap approve --always -q")
    assert "done    create .vscode/settings.json" in kernel.run(asks).text
    assert kernel.value("_.status") == "completed"
    kernel.run("%wap grants --to given -q")
    grant = kernel.value("given.data['grants'][0]['id']")
    kernel.run(f"%wap grants --revoke {grant}")
    kernel.run(asks)
    assert kernel.value("_.status") == "awaiting_approval"
