"""Finds out whether the packages of the extra `manager` are installed."""

from importlib.util import find_spec

EXTRA = "jobset-controller[manager]"
SERVER_MODULES = ("fastapi", "httptools", "prometheus_client", "starlette", "uvicorn")


def missing_module() -> str:
    """The first module of the extra `manager` that is not installed; empty if all are installed."""
    return next((name for name in SERVER_MODULES if find_spec(name) is None), "")
