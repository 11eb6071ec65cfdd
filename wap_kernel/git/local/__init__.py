"""Run local git operations inside the sandbox."""
