"""The one exception that ends a command with exit code 1."""


class CommandError(Exception):
    """What went wrong and what to do next, in one sentence for a person to read."""
