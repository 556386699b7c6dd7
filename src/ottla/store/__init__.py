"""Coordination: a tree of versioned nodes with atomic compare-and-set, ephemeral nodes and watches.

`interface` is what the rest of Ottla sees; `memory` serves tests and simulation, `sqlite` the brokers of one
machine, `zookeeper` those of many.
"""
