"""Packages that only the manager, the demo and the page in the browser import: the extra `manager` brings them."""

from importlib.util import find_spec

EXTRA = "jobset-controller[manager]"
SERVER_MODULES = ("fastapi", "httptools", "prometheus_client", "starlette", "uvicorn")


def missing() -> str:
    """The first of them that is not installed; empty if all are."""
    return next((name for name in SERVER_MODULES if find_spec(name) is None), "")
