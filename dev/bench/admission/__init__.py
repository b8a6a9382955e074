"""Benchmarks of admission."""
