"""Git without a way out: local operations inside the sandbox, remote ones from a repository that the server owns."""
