"""Pipelines for the things streams are mostly used for, each with traffic to try it and a report of its result."""
