"""Where figures are from: the machine, and the state of the tree."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """What figures depend on, and how busy it is now."""
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def revision() -> str:
    """What git calls the tree, empty where it is none."""
    output = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - its place differs between systems
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return output.stdout.strip()
