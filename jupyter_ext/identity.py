"""Name the person behind a request.

A server's token, its password and no authentication at all identify no person: Jupyter makes up a user for each request
without a cookie. Such a credential belongs to the owner of the server, so the operating system's user is named.
"""

from __future__ import annotations

import re

from jupyter_server.auth import User

from wap_kernel.model.caller import name_os_user

_RANDOM_NAME = re.compile(r"[0-9a-f]{32}")
_ANONYMOUS = "Anonymous "


def name_person(user: User) -> str:
    """Return the name of a user for the audit, for runs and for the agent tokens that the user mints."""
    return name_os_user() if _is_made_up(user) else user.username


def _is_made_up(user: User) -> bool:
    """Return whether `IdentityProvider.generate_anonymous_user` made the user.

    A provider with users of its own may number them like this too, but does not call them anonymous as well.
    """
    is_random = type(user) is User and _RANDOM_NAME.fullmatch(user.username) is not None
    return is_random and user.name.startswith(_ANONYMOUS)
