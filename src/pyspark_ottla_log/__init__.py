"""Spark registers one data source per package: this one is `ottla-log`, which lives in `pyspark_ottla`."""

from pyspark_ottla.log import OttlaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
