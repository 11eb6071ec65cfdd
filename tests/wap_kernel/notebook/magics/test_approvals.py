"""Approvals for the runs of a cell, and who decides them."""

from __future__ import annotations

import json
import urllib.request

import pytest

from scripts.demo import Server
from tests.support.python_kernels import AGREED, ASKS, Kernel, ask, waiting_run
from wap_kernel.model.caller import name_os_user


def _ask_as_agent(server: Server, command: str) -> str:
    """Return the id of a run that an agent has begun and that waits."""
    body = json.dumps({"protocolVersion": "1.0", "operations": [{"type": "shell", "command": command}]}).encode()
    headers = {"Authorization": f"token {server.token}", "X-Wap-Agent": "helper"}
    request = urllib.request.Request(server.url + "wap/runs?wait=30", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        message = json.loads(answer.read())
    assert message["status"] == "awaiting_approval"
    return str(message["runId"])


def test_an_agent_that_waits_is_named_below_the_next_cell_and_shown_before_it_is_approved(
    kernel: Kernel, server: Server
) -> None:
    kernel.run("%wap ls")
    run_id = _ask_as_agent(server, ASKS)
    assert kernel.run("1 + 1").kinds == ["execute_result"]
    assert kernel.run("%wap ls -q").kinds == []
    cell = kernel.run("%wap ls")
    assert cell.kinds == ["execute_result", "display_data"]
    notice = cell.outputs[1]["data"]["text/plain"]
    assert notice.startswith("An agent waits for your approval\n")
    assert f"helper, for {name_os_user()} waits to run {ASKS}, which changes nothing, see %wap show {run_id}" in notice
    assert kernel.run("%wap ls").kinds == ["execute_result"], "once is enough"

    cell = kernel.run("%wap approve")
    assert "run the same line again" in cell.text and f"$ {ASKS}" in cell.text and "helper" in cell.text
    assert kernel.value("[_.run_id, _.status]") == [run_id, "awaiting_approval"]
    assert AGREED in kernel.run("%wap approve").text


@pytest.mark.parametrize(("label", "ok"), [("Approve", True), ("Deny", False)])
def test_a_button_decides(kernel: Kernel, label: str, ok: bool) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed, so there are no buttons")
    cell = kernel.finish(kernel.start(f"%wap sh {ASKS}", has_person=True))
    card, buttons = (output["data"] for output in cell.outputs if output["type"] == "display_data")
    assert buttons["text/plain"] == "" and "application/vnd.jupyter.widget-view+json" in buttons
    assert "%wap approve" in card["text/plain"], "the line to type stays"
    kernel.press(cell, label)
    texts = [output["data"]["text/plain"] for output in cell.outputs if output["type"] == "display_data"]
    assert texts[1] == "" and (AGREED in texts[0]) is ok and "%wap approve" not in texts[0]


def test_a_file_that_an_editor_obeys_can_be_allowed_for_good_by_a_button(kernel: Kernel) -> None:
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed, so there are no buttons")
    cell = kernel.finish(kernel.start("%wap write .idea/a.xml x", has_person=True))
    kernel.press(cell, "Always")
    assert "done" in kernel.run("%wap write .idea/a.xml y").text
    kernel.run("%wap grants --to given -q")
    for grant in kernel.value("[grant['id'] for grant in given]"):
        kernel.run(f"%wap grants --revoke {grant}")


def test_without_a_person_there_are_no_buttons(kernel: Kernel) -> None:
    assert kernel.run(f"%wap sh {ASKS}").kinds == ["display_data"]


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
    assert "done    write .vscode/settings.json (the same content, 2 bytes)" in kernel.run(asks).text
    assert kernel.value("_.status") == "completed"
    kernel.run("%wap grants --to given -q")
    grant = kernel.value("given.data['grants'][0]['id']")
    kernel.run(f"%wap grants --revoke {grant}")
    kernel.run(asks)
    assert kernel.value("_.status") == "awaiting_approval"
