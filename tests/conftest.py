"""`pytester` runs pytest inside tests. It adds options, so only a top-level conftest can load it."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# The duration of an example depends more on the machine than on the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")
