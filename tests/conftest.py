"""`pytester` runs pytest inside of tests. It has options of its own, so only a top-level conftest can ask for it."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")
