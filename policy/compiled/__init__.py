"""Policies in the API server's own admission policies: one small function per rule that writes it in CEL. Pure.

A compiled policy gives the verdicts and messages of `policy.rules`. registry.py lists the exceptions.
"""
