"""Explains JobSets: reads facts from a cluster, and derives findings from them."""
