"""Run `wap gc`: remove old and excess state, and print what that freed."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing

from wap_kernel.cli import state_option
from wap_kernel.model.caller import name_os_user
from wap_kernel.state import schema
from wap_kernel.state.retention.policy import RetentionLimits
from wap_kernel.state.retention.sweeper import Sweeper, SweepResult

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bounds = RetentionLimits()
    parser.description = (
        f"Removes runs that ended over {bounds.run_days} days ago, and the oldest others while runs, with their output"
        f" and before-images, take more than {_format_bytes(bounds.size)}; audit records over {bounds.audit_days} days,"
        f" and the oldest others while they take more than {_format_bytes(bounds.audit_size)}; tokens that expired or"
        f" were revoked over {bounds.token_days} days ago. Runs that are under way or wait for a person stay. Servers"
        " may run meanwhile; they do the same every few hours."
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    state_option.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    folder = state_option.find_state_folder(args)
    with closing(schema.connect(folder)) as connection:
        sweeper = Sweeper(folder, connection, user=name_os_user(), progress=_report_progress)
        freed = sweeper.preview() if args.dry_run else sweeper.sweep()
    _print_progress("")
    if args.json:
        cut = {} if freed.anchor is None else {"auditAnchor": str(freed.anchor)}
        sys.stdout.write(json.dumps({"dryRun": args.dry_run, **_fields(freed), "freedBytes": freed.size, **cut}) + "\n")
    else:
        sys.stdout.write(_format_summary(freed, dry_run=args.dry_run) + "\n")
        if freed.anchor is not None:
            sys.stdout.write(
                f"The audit begins after {freed.anchor}: store this head with those of the server's log.\n"
            )
    return 0


def _fields(freed: SweepResult) -> dict[str, int]:
    return {
        "runs": freed.runs,
        "outputs": freed.outputs,
        "beforeImages": freed.images,
        "tokens": freed.tokens,
        "auditRecords": freed.audit_records,
    }


def _format_summary(freed: SweepResult, *, dry_run: bool) -> str:
    names = ("runs", "folders of output", "before-images", "tokens", "audit records")
    parts = [f"{count} {name}" for name, count in zip(names, _fields(freed).values(), strict=True) if count]
    if not parts:
        return "There is nothing to remove."
    would = "Would remove" if dry_run else "Removed"
    return f"{would} {', '.join(parts)}: {_format_bytes(freed.size)} of files."


def _format_bytes(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size == int(size) else f"{size:.1f} {_UNITS[unit]}"


def _report_progress(what: str, done: int, total: int) -> None:
    _print_progress(f"{what}: {done} of {total}")


def _print_progress(text: str) -> None:
    """Replace the progress line, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
