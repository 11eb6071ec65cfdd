"""Render real results in text and in HTML."""

from __future__ import annotations

import html
import time
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.support.html_reader import check
from tests.support.recorded_answers import Recorded
from wap_kernel.client.render import VIEWS, bundle, text, units
from wap_kernel.client.render.writers.palette import Palette
from wap_kernel.client.results import FileText, Listing, Overview, PolicyReport, RunList, RunResult, VerdictList
from wap_kernel.dialects.agent_spaces.operations import parse_message
from wap_kernel.policy.effective import EffectivePolicy
from wap_kernel.policy.parse import merge_policy
from wap_kernel.policy.presets import load_preset

NAMES = (
    "asking atomic audit dry file grants hits listing note overview part policy problem".split()
    + "regex hits,reverted,run,runs,verdicts".split(",")
)


@pytest.mark.parametrize("name", NAMES)
def test_every_view_keeps_the_laws(recorded: Recorded, name: str) -> None:
    answer = recorded[name]
    check(bundle(answer))
    assert text(answer) == repr(answer) == answer._repr_mimebundle_()["text/plain"]


def test_there_is_a_view_for_every_kind(recorded: Recorded) -> None:
    assert {answer.view for answer in recorded.answers.values()} == set(VIEWS)


def said(recorded: Recorded, name: str) -> tuple[str, str]:
    both = bundle(recorded[name])
    return both["text/plain"], check(both).text


def test_a_run_has_a_line_for_each_operation(recorded: Recorded) -> None:
    plain, rich = said(recorded, "run")
    first, *lines = plain.split("\n")
    assert first.startswith("run_") and "completed with problems · 6 done · 3 failed · 1 denied" in first
    for line in (
        "  done    read app.py (72 bytes)",
        "  done    edit app.py (+1 −1)",  # noqa: RUF001
        '          | -GREETING = "Hello"',
        '          | +GREETING = "Welcome"',
        "  failed  create app.py: File already exists",
        "          4 | def greet(name):",
        "  done    create notes/todo.txt (4 bytes)",
        "          | red plain",
        "          ! oops",
        "          | 200",
    ):
        assert line in lines, line
    assert "The closest is at line 4, " in plain
    assert f"To undo it: %wap revert {recorded['run'].data['runId']}" in plain
    for words in ("✓ done", "✗ failed", "⊘ denied", "+GREETING", "188 earlier lines", "red plain", "exit 3"):
        assert words in rich


def test_colours_of_a_command_are_kept(recorded: Recorded) -> None:
    assert '">red</span> plain' in bundle(recorded["run"])["text/html"]


def test_what_the_batch_said_is_shown_where_it_is_known(recorded: Recorded) -> None:
    plain, rich = said(recorded, "asking")
    assert "message: Tidying up" in plain and "message: Tidying up" in rich
    assert "denied  read .env: Path" in plain


def test_a_question_says_what_a_person_needs(recorded: Recorded) -> None:
    run = recorded["asking"].data["runId"]
    for written in said(recorded, "asking"):
        for words in (
            "awaiting approval",
            "Wants to run a command",
            "rm -rf data/",
            "rm -r|-R|--recursive",
            "Destructive command requires approval. It deletes folders with all that is in them.",
            "copilot, for ada",
            "UTC",
            f"%wap approve {run}",
            f"%wap deny {run}",
        ):
            assert words in written, words


def test_a_question_shows_what_the_command_did_on_its_layer(recorded: Recorded) -> None:
    plain, rich = said(recorded, "asking")
    for written in (plain, rich):
        assert "deletes 1 file and 2 folders. It has run on a layer; nothing is applied yet." in written
    lines = [line.strip() for line in plain.split("\n")]
    assert [line for line in lines if line.startswith("deletes ")] == [
        "deletes folder data",
        "deletes folder data/deep",
        "deletes data/deep/x.txt (+0 −1)",  # noqa: RUF001
    ]
    assert "the content of 1 deleted file" in rich


def approval(**pending: Any) -> RunResult:
    told = {"operation": {"type": "shell"}, "command": "make", **pending}
    return RunResult({"runId": "run_1", "status": "awaiting_approval", "events": [], "pendingApproval": told})


def effect(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"exitCode": 0, "stdout": "", "stderr": "", "changes": list(changes), "counts": {}, **more}


def test_an_effect_shows_what_is_lost_first_then_diffs_then_output() -> None:
    changes = (
        {"path": "new.py", "change": "created", "diff": "@@ -0,0 +1 @@\n+new\n"},
        {"path": "app.py", "change": "changed", "diff": "@@ -1 +1 @@\n-old\n+young\n", "isDiffTruncated": True},
        {"path": "src", "change": "moved", "kind": "folder", "source": "lib"},
        {"path": "run.sh", "change": "mode"},
        {"path": "gone.py", "change": "deleted", "diff": "@@ -1 +0,0 @@\n-gone\n"},
    )
    refused = [{"path": ".bashrc", "rule": "r", "reason": "Start-up file"}]
    plain = text(approval(effect=effect(*changes, stdout="built\n", timedOut=True, refusedChanges=refused)))
    order = [
        "deletes 1 file, changes 1 file, creates 1 file, moves 1 folder, changes the mode of 1 file. ",
        "deletes gone.py",
        "changes app.py",
        "creates new.py",
        "moves   folder lib → src",
        "mode of run.sh",
        "not applied: .bashrc (Start-up file)",
        "+young",
        "the end of the diff left out",
        "+new",
        "| built",
        "-gone",
    ]
    found = [plain.index(words) for words in order]
    assert found == sorted(found)
    assert "(timed out)" in plain


def test_an_effect_of_many_changes_is_counted_and_bounded() -> None:
    changes = [{"path": f"data/{number}.csv", "change": "deleted", "diff": "-x\n" * 500} for number in range(200)]
    both = bundle(
        approval(effect=effect(*changes, counts={"deleted": 5_200, "changed": 3}, more=5_003, stdout="y" * 20_000))
    )
    check(both)
    assert "deletes 5,200 paths, changes 3 paths" in both["text/plain"]
    assert "more changes" in both["text/plain"] and "more changes" in both["text/html"]
    assert sum(map(len, both.values())) < 100_000


def test_a_command_that_changes_nothing_says_so() -> None:
    assert "changes nothing. It has run on a layer" in text(approval(effect=effect()))


def test_a_name_of_5000_characters_does_not_fill_the_card() -> None:
    both = bundle(approval(effect=effect({"path": "a" * 5_000, "change": "deleted"})))
    assert "more characters" in both["text/plain"] and len(both["text/plain"]) < 3_000


def test_a_question_names_the_files_that_it_is_bound_to() -> None:
    files = [f"f{number}.py" for number in range(50)]
    plain = text(approval(boundTo=files, boundToCount=70, notBound=["big.bin"]))
    assert "bound to      f0.py, f1.py, " in plain and "f9.py and 60 more" in plain
    assert "not bound to  big.bin" in plain


def test_a_shared_command_says_before_and_after_that_it_is_not_undone() -> None:
    assert "The command writes into the workspace directly. This cannot be undone." in text(
        approval(isolation="shared")
    )
    event = {"type": "shell", "operationId": "a", "command": "make", "success": True, "isolation": "shared"}
    asked = {"type": "approvalRequired", "operationId": "a", "operationType": "shell", "reason": "r"}
    done = text(RunResult({"runId": "run_1", "status": "completed", "events": [asked, event]}))
    assert "The command wrote into the workspace directly. A revert does not undo it." in done
    assert "To undo it" not in done


def test_changes_that_were_not_applied_are_named_with_the_next_step() -> None:
    refused = [{"path": f"{number}", "rule": "r", "reason": "Hook"} for number in range(12)]
    stderr = "wap: not applied by make\nhm\nwap: not applied: 0, 1 (see refusedChanges)\n"
    event = {"type": "shell", "command": "make", "success": True, "conflicts": ["a", "b"], "refusedChanges": refused}
    event |= {"stderr": stderr}
    plain = text(RunResult({"runId": "run_1", "status": "completed", "events": [event]}))
    assert "changed meanwhile, and left as they are now: a, b" in plain
    assert "not applied: 0 (Hook)" in plain and "… 2 more not applied" in plain
    assert "To take the command's version instead: %wap apply run_1" in plain
    assert "done    run make (14 changes not applied)" in plain
    assert "! wap: not applied by make\n          ! hm\n" in plain and "see refusedChanges" not in plain


def test_an_atomic_run_with_conflicts_can_be_applied() -> None:
    details = {"atomic": True, "conflicts": ["a"]}
    error = {"type": "error", "category": "execution", "message": "Changed meanwhile.", "details": details}
    plain = text(RunResult({"runId": "run_1", "status": "error", "events": [error], "atomic": True}))
    assert "left as they are now: a" in plain and "%wap apply run_1" in plain


def test_what_a_cancelled_command_changed_can_be_applied() -> None:
    event = {"type": "shell", "command": "make", "success": False, "error": "It was ended.", "durationMs": 5}

    def told(**more: Any) -> str:
        return text(RunResult({"runId": "run_1", "status": "cancelled", "events": [{**event, **more}]}))

    assert "To apply what it had changed so far: %wap apply run_1" in told()
    assert "apply" not in told(isolation="shared") and "apply" not in told(exitCode=1)


def test_a_question_about_a_push_says_what_is_new_and_what_is_lost_there() -> None:
    pending = {
        **{"operation": {"type": "git"}, "command": "git push --force", "reason": "It would overwrite main"},
        **{"commits": ["1111111 mine, and more"], "overwritten": [f"{place:07} theirs" for place in range(12)]},
    }
    run = RunResult({"runId": "run_1", "status": "awaiting_approval", "events": [], "pendingApproval": pending})
    lines = [" ".join(line.split()) for line in text(run).splitlines()]
    first = lines.index("new there 1111111 mine, and more")
    assert lines[first + 1 : first + 4] == ["lost there 0000000 theirs", "0000001 theirs", "0000002 theirs"]
    assert "… and older ones" in lines and "0000010 theirs" not in lines
    check(bundle(run))


def policy_card(*overrides: dict[str, Any]) -> list[str]:
    layers = tuple(merge_policy(load_preset("standard"), each) for each in overrides)
    return [" ".join(line.split()) for line in text(PolicyReport(EffectivePolicy(layers).to_dict())).splitlines()]


def test_a_policy_lists_what_every_layer_lets_through() -> None:
    lines = policy_card({"allowedCommands": ["python3", "git", "ls", "mytool"]}, {"allowedCommands": ["git log", "ls"]})
    assert lines.count("only these commands ls, git log") == 1
    assert lines.count("allowed commands ls, git log") == 2 and lines.count("without a rule ask (without a layer)") == 2
    assert not any(line.startswith(("commands that ask", "denied commands", "other commands")) for line in lines)
    assert "only these commands none" in policy_card({"allowedCommands": []})


def test_a_command_with_several_verdicts_is_listed_with_its_conditions() -> None:
    (allowed,) = (line for line in policy_card({}) if line.startswith("allowed commands"))
    (asking,) = (line for line in policy_card({}) if line.startswith("commands that ask"))
    assert ", mv, " in allowed and ", find (not with -exec -execdir -ok …), " in allowed
    assert "mv (outside the workspace; without a layer), " in asking and ", rm -r|-R|--recursive, " in asking
    (denied,) = (line for line in policy_card({}) if line.startswith("denied commands"))
    assert denied.endswith(", rm -r|-R|--recursive (on / ~ .), rm --no-preserve-root")
    assert ", pip install, " in asking, "of a command with one verdict the name says enough"


def test_a_policy_leaves_out_the_rules_that_do_not_count_on_a_layer() -> None:
    policy = EffectivePolicy((load_preset("standard"),)).to_dict()
    without, layered = (text(PolicyReport({**policy, "isolation": where})) for where in ("shared", "layer"))
    assert "chmod (without a layer)" in without and "ask (without a layer)" in without
    assert "chmod" not in layered and "run on a layer, and their changes are judged" in layered
    for card in (without, layered):
        assert "asks to change   .vscode, .idea, " in card and "shared commands    ask (of agents)" in card
        assert "asks beyond      100 deleted files, 5,000 changed files, 1.1 GB at once" in card


def test_the_lines_to_type_are_those_of_the_place(recorded: Recorded) -> None:
    run = recorded["asking"]
    assert isinstance(run, RunResult)
    assert "%wap" not in text(run, prefix="") and f"  approve {run.run_id}" in text(run, prefix="")
    assert "%wap" not in bundle(run, prefix="")["text/html"]


def test_a_dry_run_claims_nothing(recorded: Recorded) -> None:
    plain, _ = said(recorded, "dry")
    assert "2 would be done" in plain and "dry run" in plain
    assert "  would   delete app.py" in plain and "  would   run ls" in plain
    assert "undo" not in plain


def test_a_dry_run_lists_all_its_changes_once() -> None:
    first, second = ({"path": path, "change": "created"} for path in ("a", "b"))
    events = [
        {"type": "shell", "command": "make a", "success": True, "simulated": True, "changes": [first]},
        {"type": "shell", "command": "make b", "success": True, "simulated": True, "changes": [first, second]},
    ]
    both = bundle(RunResult({"runId": "run_1", "status": "completed", "events": events, "dryRun": True}))
    assert both["text/plain"].count("creates a") == both["text/plain"].count("creates b") == 1
    assert "the run so far creates 2 files" in check(both).text


def test_what_a_dry_run_leaves_out_is_said_to_be_skipped() -> None:
    event = {
        **{"type": "approvalRequired", "operationId": "op-1", "operationType": "shell", "simulated": False},
        **{"reason": "Network access requires approval", "details": {"rule": "pip install"}},
    }
    operations = [{"type": "shell", "command": "pip install numpy"}]
    run = RunResult({"runId": "run_1", "status": "completed", "events": [event], "dryRun": True}, operations=operations)
    line = "skipped run pip install numpy: Network access requires approval. A dry run does not do it."
    assert line in text(run)


def test_an_atomic_run_that_failed_offers_no_undo(recorded: Recorded) -> None:
    plain, _ = said(recorded, "atomic")
    assert "  failed  An operation failed, so everything was undone." in plain
    assert "revert" not in plain


def test_an_atomic_run_that_failed_says_what_was_undone_and_what_was_not_run(recorded: Recorded) -> None:
    plain, rich = said(recorded, "atomic")
    assert "error · 1 done · 2 undone · 1 failed · 1 not run" in plain.split("\n")[0], (
        "the read was done, and once failed"
    )
    for line in ("  undone  create new.txt (4 bytes)", "  undone  run touch other.txt (", "  not run create never.txt"):
        assert line in plain, line
    assert "undone create new.txt" in rich and "not run create never.txt" in rich


def test_what_an_atomic_run_could_not_undo_is_said_to_be_done() -> None:
    done = [{"type": "createFile", "path": path, "success": True} for path in ("a", "b")]
    command = {"type": "shell", "command": "make", "success": True, "exitCode": 0}

    def told(**details: Any) -> str:
        error = {"type": "error", "category": "execution", "message": "No.", "details": {"atomic": True, **details}}
        events = [*done, command, error]
        return text(RunResult({"runId": "run_1", "status": "error", "events": events, "atomic": True}))

    some = told(notUndone=["b"])
    assert "undone  create a" in some and "done    create b" in some and "done    run make" in some
    assert "not undone: b" in some
    assert "undone  " not in told(notUndone=["."])


def test_a_cancelled_run_says_what_was_not_run() -> None:
    operations = [{"type": "shell", "command": f"make {name}"} for name in "abc"]
    events = [{"type": "shell", "operationId": "op-1", "command": "make a", "success": True}]

    def told(status: str) -> str:
        return text(RunResult({"runId": "run_1", "status": status, "events": events}, operations=operations))

    assert "cancelled · 1 done · 2 not run" in told("cancelled") and "  not run run make c" in told("cancelled")
    assert "not run" not in told("running") and "not run" not in told("awaiting_approval")


def test_each_operation_is_shown_by_its_own_id() -> None:
    operations = [{"type": "shell", "id": "op-2", "command": "ls"}, {"type": "shell", "command": "sudo ls"}]
    steps = parse_message({"protocolVersion": "1.0", "operations": operations}).steps()
    denied = [{"operationId": step.id, "verdict": "deny", "reason": f"No {step.operation.line}"} for step in steps]
    verdicts = text(VerdictList({"verdicts": denied}, operations=operations))
    assert "deny    run ls: No ls." in verdicts and "deny    run sudo ls: No sudo ls." in verdicts
    events = [{"type": "policyDenied", "operationType": "shell", **one} for one in denied]
    run = text(RunResult({"runId": "run_1", "status": "completed", "events": events}, operations=operations))
    assert "denied  run ls: No ls." in run and "denied  run sudo ls: No sudo ls." in run


def test_what_another_was_denied_is_known_by_the_question(recorded: Recorded) -> None:
    (asked,) = (event for event in recorded["run"].data["events"] if event["type"] == "approvalRequired")
    denied = {"type": "policyDenied", "operationId": "delete", "operationType": "shell", "reason": "no way"}
    assert "denied  run rm -rf data/: no way." in text(
        RunResult({"runId": "run_1", "status": "completed", "events": [asked, denied]})
    )


def test_earlier_lines_are_counted_truly() -> None:
    events = [{"type": "shell", "operationId": "op-1", "command": "seq", "success": True}]

    def shown(**fields: Any) -> dict[str, str]:
        return bundle(RunResult({"runId": "run_1", "status": "completed", "events": [{**events[0], **fields}]}))

    whole = shown(stdout="".join(f"{number}\n" for number in range(1, 20_001)))
    assert ">19,988 earlier lines<" in whole["text/html"]
    assert "19,000 earlier lines left out; _.to_dict() holds them" in whole["text/html"]
    lines = "".join(f"{number}\n" for number in range(1, 40))
    cut = shown(stdout=f"{lines}[... 900000 bytes left out ...]\n{lines}", stdoutBytes=900_200, truncated=True)
    assert ">earlier output, 900 KB in all<" in cut["text/html"]
    for written in cut.values():
        assert html.unescape(written).count('… of 900 KB in all; connect().output("run_1", "op-1") returns it') == 1
        assert "to_dict" not in written
    both = shown(stdout="one\n", stderr="[... 9 bytes left out ...]\nx\n", stderrBytes=70_000, truncated=True)
    assert 'connect().output("run_1", "op-1", "stderr")' in both["text/plain"], "and nothing of stdout"
    assert both["text/plain"].count("in all") == 1


def test_an_undo_says_what_it_undid(recorded: Recorded) -> None:
    plain, _ = said(recorded, "reverted")
    assert f"undoes {recorded['run'].data['runId']}" in plain
    assert "restored" in plain and "To undo" not in plain


def test_a_listing_is_a_tree_with_sizes(recorded: Recorded) -> None:
    plain, rich = said(recorded, "listing")
    assert plain.split("\n") == [
        ". · 2 folders, 2 files",
        "  ├ app.py      72 bytes",
        "  └ data/",
        "    └ deep/",
        "      └ x.txt     1 byte",
    ]
    assert "└ deep/" in rich


def test_folders_that_are_not_listed_are_named() -> None:
    entries = [{"path": "src/a/b.py", "isDirectory": False}, {"path": "src/c.py", "isDirectory": False}]
    listing = Listing({"files": entries, "isTruncated": True, "totalFound": 9}, path="src")
    assert text(listing).split("\n") == [
        "src · 2 of 9 entries",
        "  ├ a/",
        "  │ └ b.py",
        "  └ c.py",
        "  … 7 more; name a folder to see what is in it",
    ]


def test_a_file_has_its_line_numbers(recorded: Recorded) -> None:
    plain, _ = said(recorded, "part")
    assert plain.split("\n") == [
        "app.py · 72 bytes · lines 4 to 5 of 5",
        "  4 | def greet(name):",
        '  5 |     return f"{GREETING}, {name}!"',
    ]


def test_an_empty_first_line_is_not_swallowed() -> None:
    file = FileText({"content": "\n\nx\n", "totalLines": 3, "returnedLines": 3}, path="a")
    assert "<pre" in bundle(file)["text/html"]
    assert "\n\n\nx" in bundle(file)["text/html"]  # a browser drops the first newline after <pre>
    assert text(file).split("\n")[1:] == ["  1 |", "  2 |", "  3 | x"]


def test_line_endings_are_said_once() -> None:
    crlf = FileText({"content": "a\r\nb\r\n", "totalLines": 2, "returnedLines": 2}, path="a")
    assert "CRLF" in text(crlf) and "\\r" not in text(crlf)
    mixed = FileText({"content": "a\r\nb\n", "totalLines": 2, "returnedLines": 2}, path="a")
    assert "CRLF" not in text(mixed) and "a\\r" in text(mixed)


def test_a_long_file_says_how_to_go_on() -> None:
    content = "".join(f"line {number}\n" for number in range(1, 50_001))
    file = FileText({"content": content, "totalLines": 50_000, "returnedLines": 50_000}, path="my data.csv")
    both = bundle(file)
    assert "%wap read 'my data.csv' --lines 401:600" in both["text/plain"]
    assert "%wap read 'my data.csv' --lines 1001:1200" in check(both).text


def test_a_file_of_one_long_line_has_no_further_lines_to_read() -> None:
    file = FileText({"content": "x" * 200_000, "totalLines": 1, "returnedLines": 1}, path="long.txt")
    both = bundle(file)
    for written in (both["text/plain"], check(both).text):
        assert "199,000 more characters of this line; print(_) shows them" in written and "--lines" not in written
        assert "x" * 1_000 in written and "x" * 1_001 not in written
    more = FileText({"content": "x" * 200_000 + "\ny\n", "totalLines": 2, "returnedLines": 2}, path="long.txt")
    assert "199,000 more characters of this line, and more: %wap read long.txt --lines 2:201" in text(more)
    assert "print" not in text(file, prefix="")


def test_one_line_is_one_line() -> None:
    assert text(FileText({"content": "x\n", "totalLines": 1, "returnedLines": 1}, path="a")).startswith("a · 1 line\n")
    assert text(FileText({"content": "x\n", "totalLines": 3, "returnedLines": 1}, path="a", first_line=2)).startswith(
        "a · line 2 of 3\n"
    )


def test_matches_are_marked(recorded: Recorded) -> None:
    both = bundle(recorded["hits"])
    assert check(both).marked == ["GREETING", "GREETING"]
    assert "2 matches · in 1 file" in both["text/plain"]
    assert "  app.py (2)\n  1 | GREETING" in both["text/plain"]
    assert check(bundle(recorded["regex hits"])).marked == ["greet("]


def test_an_overview_says_where_one_is(recorded: Recorded) -> None:
    for written in said(recorded, "overview"):
        for words in (
            "http://localhost:8888/",
            "this kernel's own",
            "bubblewrap",
            "commands are confined, and their changes are judged before they are applied",
            "standard",
            "rm -rf data/",
        ):
            assert words in written, words


def test_an_overview_says_where_commands_cannot_be_undone() -> None:
    for confined in (True, False):
        card = text(Overview({"workspace": {"confinesCommands": confined, "isolation": "shared"}}))
        assert "write directly: no undo)" in card and ("not confined" in card) is not confined


def test_an_overview_says_what_was_tried_and_what_goes_on() -> None:
    place = {"kind": "embedded", "name": "/ws", "reason": "none", "tried": ["WAP_URL is not set", "no file"]}
    plain, rich = (bundle(Overview({"endpoint": place, "running": 2}))[kind] for kind in ("text/plain", "text/html"))
    for written in (plain, rich):
        for words in ("WAP_URL is not set.", "no file.", "set WAP_URL and WAP_TOKEN", "2 runs under way"):
            assert words in written
    assert "%wap runs -s running" in plain
    assert "under way" not in bundle(Overview({"endpoint": place, "running": 0}))["text/plain"]


def test_lists_are_tables(recorded: Recorded) -> None:
    plain, rich = said(recorded, "runs")
    assert plain.split("\n")[1].split() == "run status operations started took by".split()
    assert "? awaiting approval" in plain and "? awaiting approval" in rich
    plain, rich = said(recorded, "audit")
    assert "edit app.py" in plain and "copilot, for ada" in plain and "⊘ denied" in rich
    assert "delete app.py (dry run)" in plain


def test_a_list_of_some_runs_does_not_pass_for_all_of_them() -> None:
    runs = [{"runId": "run_1", "status": "awaiting_approval", "operations": 1}, {"runId": "run_2", "status": "running"}]
    assert text(RunList({"runs": runs})).startswith("2 runs · 1 waiting for approval\n")
    some = text(RunList({"runs": runs, "nextCursor": "x"}))
    assert some.startswith("the newest 2 runs · 1 of them waiting for approval\n")
    assert "there are older ones: ask for more with --limit" in some


def test_a_list_tells_single_calls_from_batches() -> None:
    runs = [
        {"runId": "run_4", "status": "completed", "operations": 1, "tool": "writeFile", "dialect": "wap"},
        {"runId": "run_3", "status": "completed", "operations": 1, "dialect": "apply"},
        {"runId": "run_2", "status": "completed", "operations": 1, "dialect": "revert", "reverts": "run_1"},
        {"runId": "run_1", "status": "completed", "operations": 3, "dialect": "agent_spaces"},
    ]
    rows = [line.split("completed")[1].split("  ")[1].strip() for line in text(RunList({"runs": runs})).split("\n")[2:]]
    assert rows == ["call of writeFile", "apply", "undoes run_1", "3"]


def test_a_run_that_waits_is_listed_with_its_effect() -> None:
    pending = {
        "operation": {"type": "shell"},
        "command": "rm -r d",
        "effect": effect({"path": "d", "change": "deleted"}),
    }
    run = {"runId": "run_1", "status": "awaiting_approval", "pendingApproval": pending}
    assert "waits to run rm -r d, which deletes 1 file, see %wap show run_1" in text(RunList({"runs": [run]}))


def test_a_run_in_a_list_tells_of_its_problems() -> None:
    said = {
        ("completed", 0): "✓ completed ",
        ("completed", 1): "✗ completed, 1 problem ",
        ("completed", 1_200): "✗ completed, 1,200 problems ",
        ("cancelled", 2): "✗ cancelled, 2 problems ",
        ("running", 3): "● running, 3 problems ",
        ("completed", None): "run_1  completed ",  # of an older server, which does not tell
        ("completed", "many"): "✗ completed ",
    }
    for (status, problems), words in said.items():
        run = {"runId": "run_1", "status": status, "operations": 1, "user": "ada", "problems": problems}
        assert words in text(RunList({"runs": [run]})), (status, problems)


def test_verdicts_say_what_they_are_about(recorded: Recorded) -> None:
    plain, _ = said(recorded, "verdicts")
    assert "  ask     run rm -rf data: Destructive command requires approval" in plain
    assert "  deny    read .env: " in plain


def test_a_problem_says_the_next_step(recorded: Recorded) -> None:
    plain, _ = said(recorded, "problem")
    assert plain.split("\n")[:2] == ["not done · line 7 · FILE_NOT_FOUND", "  No such file or folder: nope.py"]


def _write(path: str, **fields: Any) -> dict[str, Any]:
    event = {"type": "createFile", "operationId": "op-1", "path": path, "success": True, "bytesWritten": 6, **fields}
    return {"runId": "run_1", "status": "completed", "events": [event]}


def test_a_file_that_was_there_is_replaced_and_not_created() -> None:
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,4 +1 @@\n-1\n-2\n-3\n-4\n+one\n"
    changes = {"a.txt": {"path": "a.txt", "change": "modified", "diff": diff}}
    plain = text(RunResult(_write("./a.txt"), changes=changes))
    assert "done    write ./a.txt (replaced, +1 −4, 6 bytes)\n" in plain  # noqa: RUF001
    assert "| -4\n" in plain and "| +one\n" in plain
    created = {"a.txt": {"path": "a.txt", "change": "created", "diff": "@@ -0,0 +1 @@\n+one\n"}}
    assert "done    create a.txt (6 bytes)" in text(RunResult(_write("a.txt"), changes=created))
    assert "| +one" not in text(RunResult(_write("a.txt"), changes=created)), "the person has just written it"
    assert "done    write a.txt (the same content, 6 bytes)" in text(RunResult(_write("a.txt"), changes={}))
    assert "done    create a.txt (6 bytes)" in text(RunResult(_write("a.txt"))), "nothing is known"
    assert "would   write a.txt (replaced, +1 −4, 6 bytes)" in text(  # noqa: RUF001
        RunResult(_write("a.txt", diff=diff, simulated=True))
    )


def test_an_approval_to_overwrite_says_replace() -> None:
    pending = {"approvalId": "apr_1", "operation": {"type": "createFile", "path": "a"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"}
    waiting = {"runId": "run_1", "status": "awaiting_approval", "events": [], "pendingApproval": pending}
    assert "Wants to replace a\n" in text(RunResult(waiting))
    new = {**waiting, "pendingApproval": {**pending, "diff": "@@ -0,0 +1 @@\n+b\n"}}
    assert "Wants to create a\n" in text(RunResult(new))


def test_a_diff_of_a_command_has_the_colours_of_a_diff() -> None:
    diff = "diff --git a/a b/a\nindex 1..2\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n"
    event = {"type": "shell", "operationId": "op-1", "command": "git diff", "success": True, "stdout": diff}
    run = RunResult({"runId": "run_1", "status": "completed", "events": [event]})
    rich, painted = bundle(run)["text/html"], text(run, palette=Palette(is_on=True))
    assert "rgba(46, 160, 67, 0.16)" in rich and "rgba(248, 81, 73, 0.16)" in rich
    assert "\x1b[31m-old\x1b[0m" in painted and "\x1b[32m+new\x1b[0m" in painted
    assert "\x1b[32m+++ b/a" not in painted, "a name is no added line"
    listed = RunResult({**run.data, "events": [{**event, "command": "ls", "stdout": "+a\n-b\n"}]})
    assert "rgba(46, 160, 67, 0.16)" not in bundle(listed)["text/html"], "signs alone make no diff"


def test_the_closest_region_is_shown_when_an_edit_fails() -> None:
    closest = {"startLine": 3, "endLine": 3, "text": "x = 11", "similarity": 0.9}
    event = {
        "type": "editFile",
        "operationId": "op-1",
        "path": "a.py",
        "success": False,
        "error": "No.",
        "closest": closest,
    }
    plain = text(RunResult({"runId": "run_1", "status": "completed", "events": [event]}))
    assert "The closest is at line 3, 90% alike:\n" in plain and "3 | x = 11" in plain


def test_times_are_local_and_name_their_zone_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        now = datetime(2024, 1, 15, 10, 30, tzinfo=timezone.utc)
        assert units.format_time("2024-01-15T10:30:00Z") == "2024-01-15 11:30:00 CET"
        assert units.format_deadline("2024-01-15T10:44:30Z", now) == "11:44 CET, 14 min left"
        assert units.format_deadline("2024-01-15T10:30:40Z", now) == "11:30 CET, 40 seconds left"
        assert units.format_deadline("2024-01-15T12:35:00Z", now) == "13:35 CET, 2 h 5 min left"
        assert units.format_deadline("2024-01-15T10:29:00Z", now) == "11:29 CET, over"
        assert units.format_deadline("soon", now) == "soon"
    finally:
        monkeypatch.undo()
        time.tzset()
