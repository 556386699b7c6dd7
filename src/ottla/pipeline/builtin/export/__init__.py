"""Export: the history of a topic in parquet files. Each run adds the new records."""
