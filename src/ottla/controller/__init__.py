"""Runs the pure decisions of `cluster` on the store, and mirrors the store into the image everybody reads."""
