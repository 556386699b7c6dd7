"""Pipelines: functions from DataFrame to DataFrame, and declarations of where their rows come from and go to.

What a pipeline file imports is here and costs nothing; Spark is imported when a pipeline runs.
"""

from ottla.pipeline.declaration import Pipeline, Source, pipeline, topics
from ottla.pipeline.parameters import parameter
from ottla.pipeline.sinks import Sink, to_console, to_format, to_parquet, to_table, to_topic

__all__ = [
    "Pipeline",
    "Sink",
    "Source",
    "parameter",
    "pipeline",
    "to_console",
    "to_format",
    "to_parquet",
    "to_table",
    "to_topic",
    "topics",
]
