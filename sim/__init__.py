"""A whole cluster in one thread: the brokers' own code on virtual time and a seeded network, disk and store."""
