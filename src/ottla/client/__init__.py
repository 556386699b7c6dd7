"""A small Kafka client over `ottla.wire`, for what Ottla itself has to ask of brokers, its own or others'.

`connection` is one socket with requests in flight, `client` knows the cluster and finds leaders, `offsets` and `fetch`
are the calls that readers of a log need. Nothing is decoded beyond the protocol: record batches stay bytes.
"""
