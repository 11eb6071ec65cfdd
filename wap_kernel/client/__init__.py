"""The workspace client: `connect()` finds the server of this kernel, or opens the workspace in this process."""
