"""Spark registers one data source per package. This package registers `ottla-log` from `pyspark_ottla`."""

from pyspark_ottla.log import OttlaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
