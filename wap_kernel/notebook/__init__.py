"""Serve people in notebooks: `%wap`, its language, and the `wap` kernel."""
