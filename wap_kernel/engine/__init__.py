"""Perform operations: validate, decide, audit, snapshot, perform, answer."""
