"""Metrics: measurements of many hosts, with aggregates and alerts."""
