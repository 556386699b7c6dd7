"""Export: the history of a topic in parquet files, brought up to date by every run."""
