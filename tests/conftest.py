"""What all tests share.

`pytester` runs pytest inside tests. It adds options, so only a top-level conftest can load it. `tests.spark.sessions`
marks the tests that use Spark, in all packages.
"""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.spark.sessions"]

# The duration of an example depends more on the machine than on the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

# A shell ignores SIGINT for background jobs (`make test &`), and children inherit this. Tests interrupt their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
