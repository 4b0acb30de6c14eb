"""Repeatable measurements. Each runs as `python -m benchmarks.NAME`."""
