"""Run commands in gVisor sandboxes."""
