"""Metrics: measurements of many hosts, aggregated and watched."""
