"""Runs the pure coordinator cores: loads them by replay, appends their records, and replies after the commit."""
