"""Consumer groups as a pure core: commands in, records, replies and timers out.

No I/O, no clock, no wire classes. `coordinator.GroupCore` holds the groups of one partition of `__consumer_offsets`;
what is durable changes only by `replay` of a record, so loading a partition and living on it share one path.
"""
