"""The world as a parameter: clock, disk, network, threads and randomness, as protocols and as the real thing.

Everything above takes these as constructor arguments, so that a whole cluster can run on virtual time, a seeded
network and a disk that forgets what was not synced.
"""
