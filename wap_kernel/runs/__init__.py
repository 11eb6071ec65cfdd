"""Batches of operations as runs: started, executed, decided on, cancelled, settled after a crash."""

from wap_kernel.runner.deciding import Decision
from wap_kernel.runner.runner import Runner
from wap_kernel.runs.live import Live

__all__ = ["Decision", "Live", "Runner"]
