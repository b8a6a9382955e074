"""Errors of requests to the API server.

There is one class per status that a caller acts on. An error keeps the body of an answer, truncated, only if the body
is a Kubernetes `Status`: any other body (a proxy's page, a Secret) may contain data that must not reach a log.
"""
# ruff: noqa: N818 -- the classes carry the names of Kubernetes' own Status reasons

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

MESSAGE_LIMIT = 2048
"""Characters of a Status message that are kept: enough for an Event note (1024 bytes) and a log line."""


_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
"""Messages of etcd and of its client about an object that is too large. The API server answers 500 with them."""


_NO_RIGHT = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
"""The API server's message about a missing right."""


class KubeError(Exception):
    """Base of everything `kube` raises on purpose."""


class KubeconfigError(KubeError):
    """The credentials cannot be loaded. The text is one line with file, context and fault."""


class UnreadableAnswerError(KubeError):
    """An answer of the API server cannot be decoded. If it answers a write, the write may have been done.

    `reason`: the path in the answer, and the fault.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the API server's answer cannot be read: {reason}")
        self.reason = reason


class TransportError(KubeError):
    """No HTTP answer: refused, reset, timed out.

    `sent` is False if no connection was made, so that the request cannot have reached the server. Otherwise a write may
    have been applied, or may still be applied. `untrusted`: the server's certificate was refused.
    """

    def __init__(self, message: str, *, sent: bool = True, untrusted: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.untrusted = untrusted


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of Status.details.causes."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """metav1.StatusDetails."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """metav1.Status: the API server's answer to a failed request."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details = Details()


@dataclass(frozen=True, slots=True)
class Call:
    """The API verb (get, list, watch, create, patch, update, delete) and the URL path of a request."""

    verb: str = ""
    path: str = ""


class ApiError(KubeError):
    """The API server, or a proxy in front of it, answered with an error status. `retry_after` is in seconds."""

    def __init__(self, code: int, status: Status, *, call: Call = Call(), retry_after: float | None = None) -> None:
        self.code = code
        self.reason = status.reason
        self.message = status.message[:MESSAGE_LIMIT]
        self.causes = status.details.causes
        self.details = status.details
        self.retry_after = retry_after
        self.call = call
        super().__init__(code, self.reason, self.message)

    def __str__(self) -> str:
        call_prefix = f"{self.call.verb} {self.call.path}: " if self.call.path else ""
        return f"{call_prefix}{self.code} {self.reason}".rstrip() + (f": {self.message}" if self.message else "")

    @property
    def namespace_ends(self) -> bool:
        """Whether a creation was refused because its namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def too_large(self) -> bool:
        """Whether the object would be larger than etcd stores, or than the API server takes."""
        return self.code == 413 or any(words in self.message for words in _TOO_LARGE)


class BadRequest(ApiError):
    """400, 405, 406, 413, 415: the request itself is wrong, in any state of the cluster."""


class Unauthorized(ApiError):
    """401 after the credentials were refreshed once."""


class Forbidden(ApiError):
    """403: RBAC, quota, an admission denial or a namespace that is going away."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: the resourceVersion or uid precondition does not hold."""


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists."""


class Gone(ApiError):
    """410 (reason Expired), or a resourceVersion that the server does not know (yet): list again."""


class Invalid(ApiError):
    """422: the object does not pass validation."""


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    406: BadRequest,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: TooManyRequests,
}

_decode_status = msgspec.json.Decoder(Status).decode


_PLAIN_ANSWERS: Mapping[bytes, str] = {
    b"Client sent an HTTP request to an HTTPS server.": (
        "Client sent an HTTP request to an HTTPS server: the server in the kubeconfig has to begin with https"
    ),
    b"404 page not found": "404 page not found: the API server serves nothing at this path",
}
"""Answers of the API server itself that are not a Status, and their meaning."""


def parse_status(body: bytes | msgspec.Raw) -> Status | None:
    """The body as a Status, or None when it is anything else."""
    try:
        status = _decode_status(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def from_status(status: Status, *, code: int = 0, call: Call = Call(), retry_after: float | None = None) -> ApiError:
    """The error for a Status. `code` is the HTTP status, which overrides the code in the Status, or 0 without one."""
    code = code or status.code or 500
    if retry_after is None and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif any(cause.reason == "ResourceVersionTooLarge" for cause in status.details.causes):
        kind = Gone
    return kind(code, status, call=call, retry_after=retry_after)


def from_response(code: int, headers: Mapping[str, str], body: bytes, call: Call) -> ApiError:
    """The error for an HTTP answer. `headers` has lower-case names. An unknown body is dropped."""
    message = _PLAIN_ANSWERS.get(body.strip(), f"HTTP {code} with a body that is not a Kubernetes Status (dropped)")
    status = parse_status(body) or Status(message=message)
    return from_status(status, code=code, call=call, retry_after=_seconds(headers.get("retry-after")))


def _seconds(value: str | None) -> float | None:
    """Retry-After in seconds. A date, which Kubernetes does not send, is read as one second."""
    if value is None:
        return None
    return float(value) if value.isascii() and value.isdigit() else 1.0


def leaves(error: BaseException) -> list[BaseException]:
    """All errors of a group, at any depth; for a single error, that error."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]


def missing_right(error: BaseException) -> str:
    """The missing right that the API server names, such as `patch jobsets/status.jobset.x-k8s.io`; "" for none."""
    refused = _NO_RIGHT.search(str(error))
    if refused is None:
        return ""
    verb, resource, group = refused.groups()
    return f"{verb} {resource}{group and '.'}{group}"


def raised_at(error: BaseException) -> str:
    """Function and line that raised the error; "?" if it was put into a group without being raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name}:{frames[-1].lineno}" if frames else "?"


def retry_after(error: BaseException) -> float | None:
    """Seconds of Retry-After, if the server sent it; for a group of errors, the longest."""
    if isinstance(error, ApiError):
        return error.retry_after
    if isinstance(error, BaseExceptionGroup):
        waits: list[Any] = [retry_after(inner) for inner in error.exceptions]
        return max((wait for wait in waits if wait is not None), default=None)
    return None
