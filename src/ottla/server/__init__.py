"""Connections, listeners and dispatch. `broker.py` assembles the whole broker."""
