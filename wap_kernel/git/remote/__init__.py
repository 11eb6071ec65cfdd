"""Push, pull, fetch and clone from a bare repository that the server owns."""
