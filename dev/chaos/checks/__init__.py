"""Checks after a run, one file for each promise. Pure: they take parsed records and return violations."""
