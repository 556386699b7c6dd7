"""`pytester` runs pytest inside of tests. It has options of its own, so only a top-level conftest can ask for it."""

pytest_plugins = ["pytester"]
