"""Pipelines: functions from DataFrame to DataFrame, with declarations of their sources and sinks.

Pipeline files import from here. This import is cheap: Spark is imported only when a pipeline runs.
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
