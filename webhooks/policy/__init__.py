"""Admission of JobSetPolicies, and the watches of policies."""
