"""Coordination: a tree of versioned nodes with atomic compare-and-set, ephemeral nodes and watches.

`interface` is the API for the rest of Ottla. `memory` is for tests and simulation, `sqlite` for brokers on one machine,
`zookeeper` for brokers on several machines.
"""
