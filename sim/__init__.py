"""A simulated cluster in one thread: the brokers' real code on virtual time, with a seeded network, disk and store."""
