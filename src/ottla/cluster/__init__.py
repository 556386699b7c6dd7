"""The cluster as plain data, and decisions about it. Pure: a decision returns operations for the store."""
