"""Effects of commands: shown to the person who decides, and bound to the decision."""
