"""The replicas of a broker: appends, replication, commits, and the requests that wait for them."""
