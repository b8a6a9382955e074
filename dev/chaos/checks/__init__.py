"""Checks after a run: one file per promise. Pure: parsed records in, violations out."""
