"""Shared by the pure cores: the effects that a shard performs for a core, and the order of its calls to the core."""
