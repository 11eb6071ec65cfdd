"""HTTP with the standard library: addresses, requests, bodies and server-sent events."""
