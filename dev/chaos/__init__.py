"""Runs replicas of the manager under load and faults, and judges them from the API server and its audit log."""
