"""Log aggregation: the log lines of many services in one place, by day and service."""
