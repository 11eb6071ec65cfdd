"""Sub-commands for runs that were started before: list, show, approve, deny, cancel and revert them."""
