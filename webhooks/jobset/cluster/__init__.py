"""Requests of admission to the cluster about a JobSet, and the meaning of the answers."""
