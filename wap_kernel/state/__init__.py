"""Store the state of a workspace: the audit, changes, leases and locks."""
