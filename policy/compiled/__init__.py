"""Policies in the API server's own admission policies: one small function per rule that writes it in CEL. Pure.

What a compiled policy decides and says is what `policy.rules` decides and says. registry.py says where not.
"""
