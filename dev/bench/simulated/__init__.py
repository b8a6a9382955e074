"""Measures the manager's own limit: 15,000 nodes and 60,000 pods behind an in-memory API server without delays."""
