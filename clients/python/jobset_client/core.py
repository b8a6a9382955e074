"""Generators for requests and their order, without IO, which both clients run.

An operation is a generator. It yields steps, gets an `Answer` for each step, and returns its result. `Emit` passes a
value to the user. The error of a failed step is thrown into the operation as an `UnreachableError`.
"""

import inspect
import json
import random
import re
import time
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from jobset_client.errors import JobSetError, JobSetWarning, UnreachableError, UnreadableError, refusal
from jobset_client.words import type_of

T = TypeVar("T")
API_PATH = "/apis/jobset.x-k8s.io/v1alpha2"
FIELD_MANAGER = "jobset-client"
"""The field manager in metadata.managedFields."""
TIMEOUT = 15.0
"""Seconds for one request."""
MAX_BYTES = 256 << 20
"""Largest answer: a page of 500 JobSets, each as large as etcd stores."""
MAX_LINE_BYTES = 8 << 20
"""Largest number of bytes of one event of a watch. etcd stores objects of at most 1.5 MiB."""
MAX_ATTEMPTS = 5
"""Number of times that a request is sent while the answer is 429 with Retry-After."""


_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `task`: its purpose, for messages. `max_bytes`: the largest answer.

    `stream`: the steps `Read` read the answer piece by piece.
    """

    method: str
    path: str
    task: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content_type: str = "application/json"
    timeout: float = TIMEOUT
    max_bytes: int = MAX_BYTES
    stream: bool = False

    @property
    def answer_timeout(self) -> float:
        """Seconds to wait for the answer, or for the start of a stream."""
        return min(TIMEOUT, self.timeout) if self.stream else self.timeout


@dataclass(frozen=True, slots=True)
class Read:
    """Read the next piece of the open stream, which is empty at its end. `timeout`: seconds to wait for the piece."""

    timeout: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Pass a value to the user."""

    value: T


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request.

    `warnings`: values of the headers Warning. `retry_after`: value of the header Retry-After, or empty. `server`:
    address of the server, without credentials.
    """

    status: int = 200
    body: bytes = b""
    warnings: tuple[str, ...] = ()
    retry_after: str = ""
    server: str = ""


Step = Call | Read | Sleep
Operation = Generator[Step, Answer, T]
Emitter = Generator[Step | Emit[T], Answer, None]
"""An operation that passes values to the user one by one."""
Clock = Callable[[], float]


class Deadline:
    """The time at which waiting ends. `seconds`: None for no end."""

    def __init__(self, seconds: float | None, clock: Clock = time.monotonic) -> None:
        if not isinstance(seconds, int | float | None):
            raise UnreadableError(f"a timeout is a number of seconds, and this is {type_of(seconds)}")
        self.seconds = seconds
        self._clock = clock
        self._start = clock()

    @property
    def is_over(self) -> bool:
        return self.seconds_left(1.0) <= 0

    def seconds_left(self, limit: float) -> float:
        """Seconds until the deadline, at most `limit`."""
        return limit if self.seconds is None else min(limit, self.seconds - (self._clock() - self._start))


def path(*parts: str) -> str:
    """A URL path of these parts, each of which is escaped."""
    return "/".join(quote(part, safe="") for part in parts)


def check_name(name: str, kind: str = "name") -> str:
    """The name or namespace of an object, unchanged. Raises `UnreadableError` if it is invalid."""
    if not isinstance(name, str):
        raise UnreadableError(f"a {kind} is a text, and this is {type_of(name)}: give metadata.{kind} of a JobSet")
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UnreadableError(f"{name[:_LONGEST_NAME]!r} is not a {kind}: lower case letters, digits, - and . only")
    return name


def ask(call: Call) -> Operation[Any]:
    """Send a request and return its decoded answer. Raises `ApiError`, or `JobSetError` if the answer is not JSON."""
    answer = yield from send(call)
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise JobSetError(f"cannot {call.task}: the answer is not JSON: {answer.body[:200]!r}") from error


def send(call: Call) -> Operation[Answer]:
    """Send a request and return the undecoded answer. Sends it again if the API server has not handled it.

    Warnings of the API server become `JobSetWarning`. Raises `ApiError`.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            answer = yield call
        except UnreachableError:
            if attempt or call.method != "GET" or call.stream:
                raise
            continue
        if answer.status == 429 and answer.retry_after.isdigit() and attempt < MAX_ATTEMPTS - 1:
            yield Sleep(min(float(answer.retry_after), TIMEOUT))
            continue
        break
    for value in answer.warnings:
        for text in warning_texts(value):
            warnings.warn(text, JobSetWarning, stacklevel=_callers_level())
    if not 200 <= answer.status < 300:
        raise refusal(answer.status, decode(answer.body), call.task, answer.server)
    return answer


def _callers_level() -> int:
    """The `stacklevel` with which a warning of the calling function names the code outside of this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def decode(body: bytes) -> Any:
    """The JSON of a body, or its text if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def warning_texts(header: str) -> list[str]:
    """The texts of a header such as `299 - "text", 299 - "more"`."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _QUOTED.findall(header)]


def backoff(failures: int) -> float:
    """Seconds to wait after `failures` failures in a row: 0.5 to 30, randomized to spread the clients."""
    return min(30.0, 0.5 * (1 << min(failures, 10))) * random.uniform(0.5, 1)  # noqa: S311 (no secret)


class Lines:
    """Splits the pieces of a stream into lines."""

    def __init__(self) -> None:
        self._incomplete_line = b""
        self.line_count = 0
        """Number of lines so far."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes. Raises `JobSetError` for a line that is too long."""
        *lines, self._incomplete_line = (self._incomplete_line + piece).split(b"\n")
        if len(self._incomplete_line) > MAX_LINE_BYTES:
            raise JobSetError(f"an event of the watch is larger than {MAX_LINE_BYTES >> 20} MiB")
        self.line_count += len(lines)
        return [line for line in lines if line]
