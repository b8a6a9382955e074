"""The meaning of the API server's answer to a dry run: whether the JobSet has a fault. Pure.

Only the API server's own verdict on the object is a fault of the JobSet. A real API server (1.37) answers:
- own validation: 422, the message begins with `Job.batch "name" is invalid`;
- a ValidatingAdmissionPolicy: 422 as well (its default reason is Invalid), but the message begins with the resource,
  `jobs.batch "name" is forbidden`;
- a webhook: any code and any details, but the message begins with `admission webhook "..."`;
- a quota, RBAC, a namespace that is being deleted: 403; a missing namespace: 404.
The API server validates before it calls validating webhooks, policies and quotas, so they never hide a fault.
"""

import re
from collections.abc import Callable
from enum import Enum

from api import keys
from kube.errors import AlreadyExists, ApiError, Invalid, TransportError, UnreadableAnswerError
from kube.model.field import ErrorType, Layer, Rule, Severity, shorten
from kube.resources import JOBS, Resource

DOCS = "docs/reference/validation.md#what-only-the-cluster-knows"
"""The page of rules about objects of the cluster."""
MAX_REASON_LENGTH = 70
"""The most characters of a reason in a warning. A whole warning has at most 256."""


def warning(
    rule_id: str, message: str, fix: str = "", *, source: str = DOCS, kind: ErrorType = ErrorType.INVALID
) -> Rule:
    """A rule about the state of the cluster, which warns and does not refuse, because that state may change."""
    return Rule(rule_id, kind, message, fix, source, Layer.CLUSTER, Severity.WARNING)


class Verdict(Enum):
    """The outcome of a dry run."""

    FAULTY = "the object is at fault, the causes say where"
    EXISTS = "an object of that name exists, and the new object is valid"
    REFUSED = "refused at the moment, which may change: by a quota, a policy, a webhook"
    UNKNOWN = "no verdict on the object"


def is_busy_or_unreachable(error: object) -> bool:
    """Whether the error means that the API server is overloaded or unreachable."""
    if isinstance(error, ApiError):
        return error.code in {401, 408, 429} or error.code >= 500
    return isinstance(error, TimeoutError | TransportError)


def verdict(error: ApiError, resource: Resource) -> Verdict:
    """The meaning of an error of a dry-run create. `cluster.decode` handles a 400 of the decoder."""
    if is_busy_or_unreachable(error):
        return Verdict.UNKNOWN
    if isinstance(error, AlreadyExists):
        return Verdict.EXISTS
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    is_validation = isinstance(error, Invalid) and error.message.startswith(f'{kind} "')
    return Verdict.FAULTY if is_validation and error.causes else Verdict.REFUSED


def misses_owner(error: ApiError, jobset: str) -> bool:
    """Whether a Job is refused because the JobSet that owns it is not stored yet."""
    # A client with a cache names the kind in its message, the API server names the resource.
    names = (f'{keys.KIND}.{keys.GROUP} "{jobset}"', f'{keys.PLURAL}.{keys.GROUP} "{jobset}"')
    return any(f"{name} not found" in error.message for name in names)


def may_want_owner(error: ApiError) -> bool:
    """Whether a policy or a webhook, and not a quota, has refused a Job, perhaps because the Job has no owner."""
    return verdict(error, JOBS) is Verdict.REFUSED and "exceeded quota" not in error.message


_MAX_USER_LENGTH = 30
_NO_RIGHT = re.compile(r'User "([^"]*)" cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?.*', re.DOTALL)


def _right_text(match: re.Match[str]) -> str:
    """The user and the missing right: verb and resource in full, and the end of a long name of a user."""
    user, verb, resource, group = match.groups()
    user_text = user if len(user) <= _MAX_USER_LENGTH else f"...{user[3 - _MAX_USER_LENGTH :]}"
    return f'User "{user_text}" cannot {verb} {resource}{f".{group}" if group else ""}'


_SHORTENINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r'^\S+ "[^"]*" is forbidden: '), ""),
    (re.compile(r"^\S+ is forbidden: (?=User )"), ""),
    (_NO_RIGHT, _right_text),
    (re.compile(r" with binding '[^']*' denied request"), ""),
    (re.compile(r" denied the request"), ""),
    (re.compile(r"^Internal error occurred: "), ""),
    (re.compile(r"exceeded quota: .*", re.DOTALL), "exceeded quota"),
    (re.compile(r"\s+"), " "),
)


def describe_error(error: Exception, timeout: float) -> str:
    """An error in a few words, without the name of the object. `timeout`: the seconds for the request."""
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, TransportError):
        return "no answer from the API server" if error.sent else "no connection to the API server"
    if isinstance(error, UnreadableAnswerError):
        return "an answer that cannot be read"
    if not isinstance(error, ApiError):
        return shorten(str(error), MAX_REASON_LENGTH)
    text = error.message
    for pattern, replacement in _SHORTENINGS:
        text = pattern.sub(replacement, text)
    return shorten(
        text if error.code == 403 else f"{error.code} {text}" if error.code >= 500 else text, MAX_REASON_LENGTH
    )
