"""Reads the state of an installation: webhooks that are off, their endpoints, and their certificates."""
