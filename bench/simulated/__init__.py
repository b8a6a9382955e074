"""The manager's own limit: 15,000 nodes and 60,000 pods behind an API server that answers at once, in memory."""

from bench.simulated.run import measure, rows

__all__ = ["measure", "rows"]
