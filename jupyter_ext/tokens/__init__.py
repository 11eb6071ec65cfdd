"""Agent tokens: store them, parse requests for them, find them in a request, limit their rates."""
