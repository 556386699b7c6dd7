"""What the pure cores share: the effects that they ask of the shard that runs them, and the order of calls."""
