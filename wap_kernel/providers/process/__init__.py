"""Commands: the environment they get, how they are run and ended, and how their output is kept."""
