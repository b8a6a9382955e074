"""Measures the manager's own limit: 15,000 nodes and 60,000 pods behind an in-memory API server without delays."""

from dev.bench.simulated.run import measure, rows

__all__ = ["measure", "rows"]
