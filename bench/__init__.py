"""Side-by-side benchmarks: Ottla against Apache Kafka, in the same run, on the same machine."""
