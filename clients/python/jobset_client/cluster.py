"""Code of both clients that turns a `Call` into an HTTP request, and the response into an `Answer`."""

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any, Generic, TypeVar, get_args
from urllib.parse import urlencode

from jobset_client import connections
from jobset_client.core import Answer, Call
from jobset_client.errors import JobSetError, UnreachableError

Method = TypeVar("Method", bound=Callable[..., Any])
Response = TypeVar("Response")
DEFAULT_NAMESPACE = "default"
"""The namespace if the caller, the context and the pod give none."""


def url(host: str, call: Call) -> str:
    """The URL of a call to the API server at `host`."""
    query = f"?{urlencode(call.query)}" if call.query else ""
    return f"{host.rstrip('/')}{call.path}{query}"


def body(call: Call) -> bytes | None:
    """The body of the request; None without a body."""
    return None if call.body is None else json.dumps(call.body).encode()


def headers(call: Call, credentials: Mapping[str, Any]) -> dict[str, str]:
    """Headers of the request. `credentials` are the `auth_settings` of `kubernetes` or `kubernetes_asyncio`."""
    result = {"Accept": "application/json", "User-Agent": _USER_AGENT}
    result |= {
        entry["key"]: entry["value"] for entry in credentials.values() if entry["in"] == "header" and entry["value"]
    }
    return result if call.body is None else result | {"Content-Type": call.content_type}


def present_as(operation: Callable[..., Any], method: Method) -> Method:
    """The method, with the name, arguments and docstring of the operation that it runs."""
    update_wrapper(method, operation)
    own_signature = signature(operation)
    vars(method)["__signature__"] = own_signature.replace(
        return_annotation=get_args(own_signature.return_annotation)[-1]
    )
    return method


class Wire(Generic[Response]):
    """A connection of `kubernetes` or `kubernetes_asyncio`, and its open stream."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._stream: Response | None = None

    def answer(self, response: Any, body: bytes, warnings: Iterable[str]) -> Answer:
        """The answer to a request, from the response of either package."""
        server = connections.without_credentials(self._api.configuration.host)
        return Answer(response.status, body, tuple(warnings), response.headers.get("Retry-After", ""), server)

    def unreachable_error(self, task: str, error: Exception, seconds: float) -> UnreachableError:
        """The error of a request without an answer, or of a broken stream."""
        configuration = self._api.configuration
        return connections.unreachable_error(task, configuration.host, error, seconds, configuration.proxy)


class Body:
    """An answer in pieces, up to the size limit of its call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._received = bytearray()

    def add(self, piece: bytes) -> None:
        """Add a piece. Raises `JobSetError` if the answer becomes too large."""
        self._received += piece
        if len(self._received) > self._call.max_bytes:
            raise JobSetError(f"cannot {self._call.task}: the answer is larger than {self._call.max_bytes >> 20} MiB")

    @property
    def bytes(self) -> bytes:
        return bytes(self._received)


def _user_agent() -> str:
    try:
        number = version("jobset-client")
    except PackageNotFoundError:
        number = "dev"
    return f"jobset-client/{number} (python/{platform.python_version()})"


_USER_AGENT = _user_agent()
