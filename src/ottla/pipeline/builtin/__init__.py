"""Pipelines for common uses of streams, each with a traffic generator and a report."""
