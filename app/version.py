"""The version and the user agent of this program."""

from functools import cache
from pathlib import Path

DISTRIBUTION = "jobset-controller"


@cache
def current_version() -> str:
    """`v<version>` of the installed distribution, or `v0.0.0-dev` for a program that runs from a source tree."""
    for metadata_folder in Path(__file__).parents[1].glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info"):
        return f"v{metadata_folder.stem.rpartition('-')[2]}"
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 (as slow as all else of --version)

    try:
        return f"v{version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return "v0.0.0-dev"


def user_agent() -> str:
    """`jobset/<version> (<os>/<machine>)`. The API server uses the part before the slash as field manager."""
    import platform  # noqa: PLC0415 (only those who talk to a cluster need it)

    return f"jobset/{current_version()} ({platform.system().lower()}/{platform.machine()})"
