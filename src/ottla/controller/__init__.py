"""The work of the elected controller, and how a broker gives up partitions when it stops or cannot write."""
