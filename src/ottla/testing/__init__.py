"""A real broker for the tests of applications: `ottla.embedded()` and the pytest fixtures in `plugin.py`."""
