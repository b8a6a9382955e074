"""How a step becomes a request of either client."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlencode

from jobset_client.core import Call
from jobset_client.errors import JobSetError

DEFAULT = "default"
"""The namespace where nothing names one."""


def url(host: str, call: Call) -> str:
    """Where the request goes."""
    query = f"?{urlencode(call.query)}" if call.query else ""
    return f"{host.rstrip('/')}{call.path}{query}"


def body(call: Call) -> bytes | None:
    """What it carries."""
    return None if call.body is None else json.dumps(call.body).encode()


def headers(call: Call) -> dict[str, str]:
    """What is said about it."""
    said = {"Accept": "application/json", "User-Agent": _AGENT}
    return said if call.body is None else said | {"Content-Type": call.content}


class Body:
    """An answer that comes in pieces, at most so many bytes as the call allows."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._whole = bytearray()

    def add(self, piece: bytes) -> None:
        """Raises `JobSetError` where it becomes too large."""
        self._whole += piece
        if len(self._whole) > self._call.most:
            raise JobSetError(f"cannot {self._call.task}: the answer is larger than {self._call.most >> 20} MiB")

    @property
    def bytes(self) -> bytes:
        return bytes(self._whole)


def _agent() -> str:
    try:
        number = version("jobset-client")
    except PackageNotFoundError:
        number = "dev"
    return f"jobset-client/{number} (python/{platform.python_version()})"


_AGENT = _agent()
