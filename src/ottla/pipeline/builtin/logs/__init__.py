"""Log aggregation: the lines of many services in one place, by day and service."""
