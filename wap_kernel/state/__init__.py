"""What outlives an operation: the state folder, leases, locks and the audit."""
