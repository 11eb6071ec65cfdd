"""The hands of a notebook: `connect()` finds the server whose kernel this is, or serves from this process."""
