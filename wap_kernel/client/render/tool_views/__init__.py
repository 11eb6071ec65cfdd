"""Views of the answers of single tools: git, notebooks."""
