"""The cluster as plain data, and decisions about it. Pure: what must change is returned as operations for the store."""
