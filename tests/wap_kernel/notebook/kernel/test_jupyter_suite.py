"""Run the Jupyter project's own tests of a kernel.

The tests of stdout and stderr are left out: nothing prints, since the output of a command is part of its card.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from jupyter_kernel_test import KernelTests
from jupyter_kernel_test.msgspec_v5 import validate_message

from tests.support.wap_kernels import SECONDS, isolated, kernel_manager


class TestWapKernel(KernelTests):
    kernel_name = "wap"
    language_name = "wap"
    file_extension = ".wap"
    completion_samples: ClassVar = [
        {"text": "re", "matches": {"read", "revert"}},
        {"text": "read no", "matches": {"notes.txt"}},
        {"text": "ls --rec", "matches": {"--recursive"}},
        {"text": "- type: cre", "matches": {"createFile"}},
        {"text": "nothing like it "},
    ]
    complete_code_samples: ClassVar = [
        "",
        "ls",
        "# a comment\nls\nread notes.txt",
        "sh echo a \\\n  b",
        '[{"type": "shell", "command": "echo ]"}]',
        "write a.txt\nits text\n",
        "- type: readFile\n  path: notes.txt\n",
    ]
    incomplete_code_samples: ClassVar = [
        "sh echo a \\",
        "write a.txt",
        "write a.txt\nits text",
        '[{"type": "shell",',
        "- type: readFile",
    ]
    invalid_code_samples: ClassVar = [
        "print(1)",
        "read",
        'search "no end',
        '[{"type": "nothing"}]',
        "- type: readFile\n  paht: notes.txt\n",
    ]
    code_generate_error = "read missing.txt"
    code_execute_result: ClassVar = [
        {"code": "ls"},
        {"code": "read notes.txt", "mime": "text/html"},
        {"code": "help", "mime": "text/plain"},
    ]
    code_display_data: ClassVar = [
        {"code": "sh echo hello", "mime": "text/html"},
        {"code": "ls\nread notes.txt", "mime": "text/plain"},
    ]
    code_history_pattern = "r?ad n*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "search"

    @classmethod
    def setUpClass(cls) -> None:
        """In a folder of its own, with nothing of the user's."""
        cls.folder = Path(tempfile.mkdtemp(prefix="wap-suite-"))
        workspace = cls.folder / "workspace"
        workspace.mkdir()
        (workspace / "notes.txt").write_text("first\n")
        cls.km = kernel_manager(cls.folder)
        cls.km.start_kernel(cwd=str(workspace), env=isolated(cls.folder))
        cls.kc = cls.km.client()
        cls.kc.start_channels()
        cls.kc.wait_for_ready(timeout=SECONDS)
        cls.kc.execute_interactive("ls", silent=True, timeout=SECONDS)  # completion waits 150 ms, not for a workspace

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        cls.km.cleanup_resources()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_completion(self) -> None:
        """What a busy machine has not said within the time of a completion is there with a later one."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return super().test_completion()
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def test_interrupt(self) -> None:
        """The suite has none of its own."""
        self.flush_channels()
        request = self.kc.execute("sh -t 600 sleep 1000")
        while self.kc.get_iopub_msg(timeout=SECONDS)["msg_type"] != "display_data":  # the card of a run that goes
            pass
        self.km.interrupt_kernel()
        reply = self.get_non_kernel_info_reply(timeout=SECONDS)
        assert reply is not None
        validate_message(reply, "execute_reply", request)
        assert reply["content"]["status"] == "error"
        assert reply["content"]["ename"] == "KeyboardInterrupt"


del KernelTests  # it would be collected here as well
