"""Writes the status of policies and exceptions, reports about violations, and compiled policies."""
