"""Benchmarks as commands."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_module(module: str, *args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE`, whatever its exit code."""
    return subprocess.run(  # noqa: S603 - a module of ours
        [sys.executable, "-m", module, *args], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )
