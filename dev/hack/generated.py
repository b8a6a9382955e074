"""Files of the repository that are generated: written, or compared with what would be written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def main(made: Mapping[Path, Callable[[], str]], argv: list[str] | None = None) -> int:
    """Write each file; with `--check` write nothing, name those that differ, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=f"Generate {', '.join(path.name for path in made)}.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")
    options = parser.parse_args(argv)
    outdated = 0
    for file, make in made.items():
        if not options.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(make(), encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != make():
            sys.stdout.write(f"{file.name} is not current; run `make generate` and commit the result.\n")
            outdated = 1
    return outdated
