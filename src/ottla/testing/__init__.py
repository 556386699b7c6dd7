"""A real broker for other people's tests: `ottla.embedded()` and the pytest fixtures in `plugin.py`."""
