"""Builders of objects, in as few words as a test needs."""
