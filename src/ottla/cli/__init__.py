"""The `ottla` command: start a broker, and look after topics, records, groups and settings of any Kafka cluster."""
