"""Types of command-line options that several benchmarks have."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number of at least 1. Raises what argparse shows as a usage error."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def numbers(text: str) -> list[int]:
    """Whole numbers separated by commas. Raises what argparse shows as a usage error."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [-1]
    if min(found) < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a list of whole numbers separated by commas")
    return found
