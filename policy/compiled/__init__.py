"""Compiles policies into admission policies of the API server, whose expressions are in CEL. Pure.

A compiled policy gives the verdicts and messages of `policy.rules`, with the exceptions in policy/registry.py.
"""
