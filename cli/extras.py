"""What an installation may lack: the packages of the extra `manager`, and the examples, which a clone has elsewhere."""

from importlib.util import find_spec
from pathlib import Path

_INSTALLED = Path(__file__).parent / "examples"
EXAMPLES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[1] / "examples"
"""The wheel has them beside this module, a clone beside its package."""

EXTRA = "jobset-controller[manager]"
SERVER_MODULES = ("fastapi", "httptools", "prometheus_client", "starlette", "uvicorn")


def missing() -> str:
    """The first module of that extra that is not installed; empty if all are."""
    return next((name for name in SERVER_MODULES if find_spec(name) is None), "")
