"""The environment of a broker: clock, disk, network and threads, as protocols and as real implementations.

The other packages take these as constructor arguments. So a simulator can run a whole cluster on virtual time, with a
seeded network and a disk that loses unsynced data.
"""
