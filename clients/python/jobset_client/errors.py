"""Errors of the client. Each message says what happened, with the API server's message, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobset_client.words import in_lines


class JobSetError(Exception):
    """All errors of this package; the text is for people."""


class UnreadableError(JobSetError, ValueError):
    """An argument is not a valid JobSet, name or state, or it has an unknown field or a value of a wrong type."""

    def __init__(self, message: str, *, causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes
        """Each fault of an object, with the path of its field, and its line if it was read from a text."""


class CredentialsError(JobSetError):
    """There is no kubeconfig or service account that can be used."""


class UnreachableError(JobSetError):
    """No answer: the connection failed or took too long."""


class ApiError(JobSetError):
    """The API server refused a request."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status, such as 422."""
        self.reason = reason
        """One word of the API server, such as AlreadyExists."""
        self.causes = causes
        """Each fault of an object that is invalid, with the path of its field."""


class NotFoundError(ApiError):
    """There is no object of that name."""


class NotServedError(ApiError):
    """The cluster does not know JobSets."""


class AlreadyExistsError(ApiError):
    """There is an object of that name already."""


class ConflictError(ApiError):
    """The object has changed meanwhile, or is another one of the same name."""


class InvalidError(ApiError):
    """The object is not valid; `causes` lists its faults."""


class ForbiddenError(ApiError):
    """No right to do that, or a quota or policy forbids it."""


class UnauthorizedError(ApiError):
    """The API server does not accept the credentials."""


class ExpiredError(ApiError):
    """A list or a watch has to start again: its resourceVersion or continue token has expired."""


class BusyError(ApiError):
    """The API server is too busy to answer; try again later."""


class RefusedError(JobSetError):
    """The operation would change nothing, or another controller is in charge; nothing was written."""


class NeverError(JobSetError):
    """The JobSet cannot reach the awaited state any more: it has ended in another state, or was deleted."""


class GoneError(NotFoundError, NeverError):
    """There is no JobSet to wait for: it was deleted before, or never created."""


class WaitTimeoutError(JobSetError, TimeoutError):
    """The JobSet did not reach the state in time."""


class JobSetWarning(UserWarning):
    """A warning of the API server about a request that it accepted."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: BusyError,
}
_NOT_SERVED_TEXT = "could not find the requested resource"
"""Part of the API server's message about a path that it does not serve."""
_MAX_CHARACTERS = 4096
"""Largest number of characters that are quoted from an answer."""


def refusal(status: int, body: Any, task: str, server: str = "") -> ApiError:
    """The error for an answer. `task`: the request, such as `create JobSet team-a/train`."""
    answer = body if isinstance(body, Mapping) else {}
    reason = str(answer.get("reason") or "")
    details = answer.get("details")
    details = details if isinstance(details, Mapping) else {}
    causes = tuple(_causes(details))
    message = _format_causes(str(answer.get("message") or body or "no message"), causes)[:_MAX_CHARACTERS]
    kind = _BY_STATUS.get(status, BusyError if status >= 500 else ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExistsError
    elif status == 404 and (not answer or _NOT_SERVED_TEXT in message):
        kind = NotServedError
    remedy = _NOT_FOUND_REMEDIES.get(str(details.get("kind"))) if kind is NotFoundError else _REMEDIES.get(kind)
    at_server = f" at {server}" if server and kind in _CLUSTER_ERRORS else ""
    text = f"cannot {task}{at_server}: {message}" + (f"; {remedy}" if remedy else "")
    return kind(text, status=status, reason=reason, causes=causes)


def _format_causes(message: str, causes: Sequence[str]) -> str:
    """The message with each cause on a line of its own, instead of all of them in brackets."""
    head, bracket, _ = message.partition(f"[{', '.join(causes)}")
    if not causes or not bracket or not message.endswith("]"):
        return message
    return in_lines(head.rstrip().removesuffix(":"), list(causes))


_NO_FIELD = "<nil>"
"""The field of a cause that is about no field, and only says that not everything was checked."""


def _causes(details: Mapping[str, Any]) -> list[str]:
    causes = details.get("causes")
    entries = [cause for cause in causes if isinstance(cause, Mapping)] if isinstance(causes, list) else []
    return [
        ": ".join(str(cause[part]) for part in ("field", "message") if cause.get(part))
        for cause in entries
        if cause.get("field") != _NO_FIELD
    ]


_REMEDIES: dict[type[ApiError], str] = {
    NotServedError: "the cluster does not serve JobSets: an administrator has to install JobSet first",
    AlreadyExistsError: "delete it first, or choose another name (metadata.generate_name lets the API server choose)",
    ConflictError: "get it again, and repeat",
    UnauthorizedError: "log in again: the kubeconfig's credentials are missing or no longer valid",
    ForbiddenError: "ask an administrator for the right, or correct what the message names",
    BusyError: "try again later",
}
"""The remedy for each error whose message from the API server does not name one."""
_NOT_FOUND_REMEDIES = {
    "jobsets": "list() gives those of a namespace, list(everywhere=True) all",
    "namespaces": "create that namespace first, or choose another",
}
"""The remedy if an object of this kind does not exist."""
_CLUSTER_ERRORS = {NotServedError, UnauthorizedError, BusyError}
"""Errors about the cluster and not about an object. Their messages name the address of the cluster."""
