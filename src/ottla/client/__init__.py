"""A small Kafka client over `ottla.wire`. Ottla uses it to send requests to brokers of Ottla and of Apache Kafka.

`connection` is one socket with requests in flight. `client` keeps the cluster's metadata and finds leaders. `offsets`
and `fetch` make the requests that readers of a log need. The client does not decode record batches: they stay bytes.
"""
