"""Sockets, listeners and dispatch; `broker.py` puts the whole broker together."""
