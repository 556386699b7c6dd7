"""Runs the pure coordinator cores: loads them by replay, appends their records, answers once these are committed."""
