"""Writes the status of JobSetPolicies, reports, and compiled policies."""
