"""Run the `wap` command as `python -m wap_kernel.cli`."""

from __future__ import annotations

import sys

from wap_kernel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
