"""Execute batches of operations as runs: start, decide, cancel, recover, revert."""
