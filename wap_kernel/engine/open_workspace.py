"""Open a workspace in this process, as a server with the same configuration would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wap_kernel.model.errors import translate_os_error

if TYPE_CHECKING:
    from logging import Logger

    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.model.caller import CallContext, Caller
    from wap_kernel.model.operations import Operation


def open_workspace(
    root: str,
    settings: Mapping[str, Any],
    *,
    confined_only: bool = False,
    changed: Callable[[Operation, Caller, CallContext], None] = lambda *_: None,
    log: Logger | None = None,
) -> Workspace:
    """Return the workspace at `root`. `settings` come from `wap_kernel.engine.jupyter_config.read_settings`."""
    from wap_kernel.engine.workspace import Workspace
    from wap_kernel.git.settings import parse_git_settings
    from wap_kernel.model.results import Limits
    from wap_kernel.policy import presets
    from wap_kernel.policy.parse import merge_policy
    from wap_kernel.providers import selection

    limits = Limits(**{name: settings[name] for name in Limits.model_fields if name in settings})
    preset = presets.load_preset(str(settings.get("preset", presets.DEFAULT)).lower())
    try:
        return Workspace(
            root,
            policy=merge_policy(preset, settings.get("policy", {})),
            provider=str(settings.get("provider", selection.AUTO)).lower(),
            allow_unconfined=bool(settings.get("allow_unconfined", False)),
            confined_only=confined_only,
            state_dir=settings.get("state_dir") or None,
            limits=limits,
            undo=bool(settings.get("undo", True)),
            git=parse_git_settings(settings.get("git", {})),
            changed=changed,
            log=log,
        )
    except OSError as error:
        raise translate_os_error(error, root) from None
