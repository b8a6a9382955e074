"""What this program calls itself, to people and to the API server."""

import platform
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "jobset-controller"


def current() -> str:
    """`v<version>` of the installed distribution; `v0.0.0-dev` when it runs from an unpacked tree."""
    try:
        return f"v{version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return "v0.0.0-dev"


def user_agent() -> str:
    """`jobset/<version> (<os>/<machine>)`; the API server takes the part before the slash as field manager."""
    return f"jobset/{current()} ({platform.system().lower()}/{platform.machine()})"
