"""The work of the elected controller, and how a broker hands over partitions when it stops or cannot write."""
