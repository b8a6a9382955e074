"""Types of command-line options that several benchmarks have."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number of at least 1. Raises what argparse shows as a usage error."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
