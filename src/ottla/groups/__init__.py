"""Consumer groups as a pure core: commands in, records, replies and timers out.

No I/O, no clock, no wire classes. `core.GroupCore` holds the groups of one partition of `__consumer_offsets`. Durable
state changes only by `replay` of a record, so loading and serving share one code path.
"""
