"""The one exception that ends a command with exit code 1."""


class CommandError(Exception):
    """The message is one sentence: what failed, and what to do about it."""
