"""Store runs, approvals and output."""
