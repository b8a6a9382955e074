"""Explains JobSets: facts that are read from a cluster, and findings that are made of them."""
