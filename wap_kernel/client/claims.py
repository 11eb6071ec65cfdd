"""The claims that this process makes about itself: its kernel and its notebook, for the audit.

Nothing depends on the claims: the audit records them as what a client said, beside the credential that was checked.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

SESSION_HEADER = "X-Wap-Session"
NOTEBOOK_HEADER = "X-Wap-Notebook"
_CONNECTION_FILE = re.compile(r"kernel-(.+)\.json")


@dataclass(frozen=True)
class Claims:
    """The id of the kernel that this process is, and the path of its notebook; None where there is none."""

    session: str | None = None
    notebook: str | None = None

    @classmethod
    def of_process(cls, environ: Mapping[str, str] = os.environ) -> Claims:
        """Return the claims of this process.

        Jupyter names the notebook when it starts the kernel; a notebook that was renamed since keeps its first name.
        """
        return cls(_find_kernel_id(), environ.get("JPY_SESSION_NAME") or None)

    def to_headers(self) -> dict[str, bytes]:
        """Return the headers, in UTF-8 and without characters that end a header."""
        named = {SESSION_HEADER: self.session, NOTEBOOK_HEADER: self.notebook}
        return {header: _encode(text) for header, text in named.items() if text}


def _encode(text: str) -> bytes:
    return "".join(one for one in text if one.isprintable()).encode("utf-8", "replace")


def _find_kernel_id() -> str | None:
    """Return the id under which the server lists this kernel, from the name of its connection file."""
    module = sys.modules.get("ipykernel.kernelapp")  # a process that is no kernel has not imported it
    if module is None or not module.IPKernelApp.initialized():
        return None
    match = _CONNECTION_FILE.fullmatch(os.path.basename(module.IPKernelApp.instance().connection_file))
    return match[1] if match else None
