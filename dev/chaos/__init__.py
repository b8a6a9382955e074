"""Chaos and soak runs: replicas of the manager under load and faults, judged from the API server and its audit log."""
