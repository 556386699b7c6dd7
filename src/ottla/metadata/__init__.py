"""What every broker has: its view of the cluster, its own registration, and connections to the other brokers."""
