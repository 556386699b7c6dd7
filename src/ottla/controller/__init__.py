"""The controller, and how a broker hands over its partitions when it stops or cannot write to its disk."""
