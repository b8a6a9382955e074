"""Faults between a `Client` and its API server, for any Transport, real or in memory.

    transport = FaultyTransport(HttpTransport(...))
    transport.inject(Answer(429, retry_after=1), verb="create", path="/jobs", times=3)
    transport.inject(LostAnswer(), verb="patch", path="/status")       # applied, but the answer is lost
    transport.inject(Cut(after=2, expire=True), verb="watch")          # 410 in mid-stream
    transport.before_write = kill_at(7)                                # the process dies before its 7th write

`choose` replaces the script by any function of the request, for random faults. `calls` lists what was asked, in order.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec

from kube.errors import Call, TransportError, from_response
from kube.transport import Request, Response, Transport

REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True)
class Answer:
    """The server never sees the request; this status is the answer. `retry_after` is in whole seconds."""

    status: int
    reason: str = ""
    retry_after: int | None = None
    message: str = "injected"


@dataclass(frozen=True)
class Refused:
    """No connection is made: nothing was sent."""


@dataclass(frozen=True)
class LostRequest:
    """The request does not arrive, and the client only sees that no answer came in its timeout."""


@dataclass(frozen=True)
class LostAnswer:
    """The request is carried out, and the client only sees that no answer came in its timeout."""


@dataclass(frozen=True)
class Late:
    """The request is carried out after `seconds`. A client that gives up before that does not undo it."""

    seconds: float


@dataclass(frozen=True)
class SlowAnswer:
    """The request is carried out at once, and the answer takes `seconds` (lost if that is more than the timeout)."""

    seconds: float


@dataclass(frozen=True)
class Stale:
    """A read is answered with what the same read was answered before (the oldest answer kept)."""


@dataclass(frozen=True)
class Cut:
    """A watch ends after `after` lines: closed cleanly, broken (`broken`) or with a 410 event (`expire`)."""

    after: int = 0
    broken: bool = False
    expire: bool = False


@dataclass(frozen=True)
class Repeat:
    """Every line of a watch comes `times` times; and each line but the first also after its successor."""

    times: int = 2


Fault = Answer | Refused | LostRequest | LostAnswer | Late | SlowAnswer | Stale | Cut | Repeat


class Killed(BaseException):
    """The process died here. Not an Exception, so that nothing handles it."""


@dataclass
class Rule:
    """A fault for the next `times` requests of that verb whose path contains `path`."""

    fault: Fault
    verb: str = ""
    path: str = ""
    times: int = 1
    hits: int = 0

    def take(self, request: Request) -> bool:
        wanted = self.hits < self.times and self.verb in {"", request.verb} and self.path in request.path
        self.hits += wanted
        return wanted


@dataclass
class FaultyTransport:
    """Wraps a transport. `before_write` and `after_write` are kill points: they may raise `Killed`."""

    inner: Transport
    choose: Callable[[Request], Fault | None] | None = None
    before_write: Callable[[Request], None] | None = None
    after_write: Callable[[Request, Response], None] | None = None
    calls: list[Call] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    _answers: dict[tuple[str, tuple[tuple[str, str], ...]], Response] = field(default_factory=dict)
    _late: set["asyncio.Task[Response]"] = field(default_factory=set)

    def inject(self, fault: Fault, *, verb: str = "", path: str = "", times: int = 1) -> Rule:
        """Script a fault; rules are tried in the order they were added. `rule.hits` counts how often it struck."""
        rule = Rule(fault, verb, path, times)
        self.rules.append(rule)
        return rule

    def writes(self, path: str = "") -> list[Call]:
        """The calls that could change something."""
        return [call for call in self.calls if call.verb not in {"get", "list", "watch"} and path in call.path]

    def _fault(self, request: Request) -> Fault | None:
        self.calls.append(request.call)
        if self.choose is not None:
            return self.choose(request)
        return next((rule.fault for rule in self.rules if rule.take(request)), None)

    async def send(self, request: Request) -> Response:
        fault = self._fault(request)
        if request.method == "GET":
            return await self._read(request, fault)
        if self.before_write is not None:
            self.before_write(request)
        response = await self._apply(request, fault)
        if self.after_write is not None:
            self.after_write(request, response)
        return response

    async def _read(self, request: Request, fault: Fault | None) -> Response:
        key = request.path, request.query
        if isinstance(fault, Stale) and key in self._answers:
            return self._answers[key]
        response = await self._apply(request, None if isinstance(fault, Stale) else fault)
        if response.status == 200:
            self._answers.setdefault(key, response)
        return response

    async def _apply(self, request: Request, fault: Fault | None) -> Response:
        lost = TransportError(f"{request.verb} {request.path}: no answer in {request.timeout:g} s (injected)")
        match fault:
            case Answer():
                return _answer(fault)
            case Refused():
                raise TransportError(f"{request.verb} {request.path}: refused (injected)", sent=False)
            case LostRequest():
                await asyncio.sleep(request.timeout)
                raise lost
            case LostAnswer():
                await self.inner.send(request)
                await asyncio.sleep(request.timeout)
                raise lost
            case SlowAnswer(seconds):
                response = await self.inner.send(request)
                await asyncio.sleep(min(seconds, request.timeout))
                if seconds > request.timeout:
                    raise lost
                return response
            case Late(seconds):
                return await self._send_late(request, seconds, lost)
            case _:
                return await self.inner.send(request)

    async def _send_late(self, request: Request, seconds: float, lost: TransportError) -> Response:
        async def later() -> Response:
            await asyncio.sleep(seconds)
            return await self.inner.send(request)

        task = asyncio.ensure_future(later())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        try:
            async with asyncio.timeout(request.timeout):
                return await asyncio.shield(task)
        except TimeoutError:
            raise lost from None

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        fault = self._fault(request)
        if isinstance(fault, Answer):
            answer = _answer(fault)
            raise from_response(answer.status, answer.headers, answer.body, request.call)
        if isinstance(fault, Refused):
            raise TransportError(f"watch {request.path}: refused (injected)", sent=False)
        async with self.inner.stream(request) as lines:
            if isinstance(fault, Cut):
                async with contextlib.aclosing(_cut(lines, fault)) as cut:
                    yield cut
            elif isinstance(fault, Repeat):
                async with contextlib.aclosing(_repeat(lines, fault.times)) as repeated:
                    yield repeated
            else:
                yield lines

    async def close(self) -> None:
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        await self.inner.close()


def kill_at(number: int) -> Callable[[Request], None]:
    """A `before_write` hook that lets `number - 1` writes pass and dies at the next, counted over all calls of it."""
    left = number

    def hook(_: Request) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed

    return hook


def status_body(code: int, reason: str = "", message: str = "injected") -> bytes:
    """A Kubernetes Status as the API server writes it."""
    reason = reason or REASONS.get(code, "InternalError")
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return msgspec.json.encode({**status, "message": message, "reason": reason, "code": code})


def _answer(fault: Answer) -> Response:
    headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    return Response(fault.status, headers, status_body(fault.status, fault.reason, fault.message))


async def _cut(lines: AsyncIterator[bytes], fault: Cut) -> AsyncIterator[bytes]:
    left = fault.after
    if left > 0:
        async for line in lines:
            yield line
            left -= 1
            if left == 0:
                break
    if fault.expire:
        yield b'{"type":"ERROR","object":' + status_body(410) + b"}"
    if fault.broken:
        raise TransportError("the connection broke (injected)")


async def _repeat(lines: AsyncIterator[bytes], times: int) -> AsyncIterator[bytes]:
    previous = b""
    async for line in lines:
        for _ in range(times):
            yield line
        if previous:
            yield previous
        previous = line
