"""A file of the repository that is generated: written, or compared with what would be written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(file: Path, text: str, target: str) -> int:
    """Write the text to the file; with `--check` exit with status 1, and name the `make` target, if it differs."""
    parser = argparse.ArgumentParser(description=f"Generate {file.name}.")
    parser.add_argument("--check", action="store_true", help=f"write nothing; exit 1 if {file.name} is not current")
    if not parser.parse_args().check:
        file.write_text(text, encoding="utf-8")
    elif file.read_text(encoding="utf-8") != text:
        sys.stdout.write(f"{file.name} is not current; run `make {target}` and commit the result.\n")
        return 1
    return 0
