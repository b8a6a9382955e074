"""The servers of the manager, and of `jobset ui`, with all that they ask hanging; and clients that leave."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.exclusive import TermForm
from api.features import FeatureGates
from app.debug.pages import Debug
from app.engine import engine, policy_schemas
from app.health import Health, passes
from app.metrics import Metrics
from app.metrics_server import Guard, MetricsApp, User
from dev.bench.admission import samples
from dev.bench.admission.policies import Policies
from httpserver.address import bind
from httpserver.asgi import App
from httpserver.limits import ENDPOINT_LIMITS, WEBHOOK_LIMITS, ConnectionLimits
from httpserver.server import Server
from tests.support.objects.pods import exclusive, pod_of
from tests.support.objects.reviews import encode, review
from tests.support.serving import LOCAL
from tests.support.tls import context_with, material, trusting, until
from tests.support.webhook_app import GOOD
from ui.board import Board
from ui.guard import Guard as Page
from ui.server import Pages
from webhooks.body import BODY_LIMITS, Bodies
from webhooks.jobset.handlers import jobset_handlers
from webhooks.jobset.policies import PolicyChecks
from webhooks.pod.handlers import pod_handlers
from webhooks.policy.handlers import policy_handlers
from webhooks.router import create_app

PAIR = material()


async def hangs(*_: Any, **__: Any) -> Any:
    """Something that is asked and does not answer."""
    await asyncio.Event().wait()


class Hanging:
    """Whatever is asked of it."""

    pid = 1

    def __getattr__(self, _: str) -> Any:
        return hangs

    def may_send_requests(self, *_: Any) -> bool:
        return True

    def has_jobset(self, _: Any) -> bool:
        return True

    def find(self, *_: Any) -> None: ...

    def detail(self, _: Any) -> dict[str, Any]:
        return {}

    topology_map = detail

    async def authenticate(self, _: str) -> User:
        return User("scraper")

    async def authorize(self, _user: User, _verb: str, path: str) -> bool:
        return path != "/metrics" or bool(await hangs())


class HangingPolicies(Policies):
    namespace = hangs  # type: ignore[assignment]


@dataclass
class Served:
    """One server, and what is known of its endpoints. `is_idle`: of what its application holds."""

    app: App
    paths: Sequence[str]
    tls: bool = False
    method: str = "GET"
    headers: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    limits: ConnectionLimits = ENDPOINT_LIMITS
    is_idle: Callable[[], bool] = lambda: True
    make: Callable[[], Server] | None = None
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        context = context_with(PAIR) if self.tls else None
        self.server = self.make() if self.make else Server(self.app, bind(LOCAL, "x"), context, limits=self.limits)

    @property
    def working(self) -> int:
        return len(self.server._server.server_state.tasks)

    @property
    def connections(self) -> int:
        return len(self.server._server.server_state.connections)

    def request(self, path: str, size: int = 0) -> bytes:
        """A request whose body is filled up to that size with blanks."""
        body = self.bodies.get(path, GOOD).ljust(size)
        head = f"{self.method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{self.headers}"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection that is cut at the end."""
        tls: ssl.SSLContext | None = trusting(PAIR.authorities) if self.tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=tls)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def webhooks() -> Served:
    policies = HangingPolicies(1)
    gates = FeatureGates()
    checks: Any = Hanging()
    handlers = {
        **jobset_handlers(engine(gates), checks, PolicyChecks(policies, policies, gates)),
        **pod_handlers(checks, lambda: TermForm.LABEL_KEYS),
        **policy_handlers(policy_schemas(), policies, gates),
    }
    app = create_app(handlers)
    held: Bodies = app.state.bodies
    follower = encode(review(pod_of(exclusive(), 1)))
    exception = encode(review({**samples.exception("x"), "metadata": {"name": "x", "namespace": "default"}}))
    bodies = {path: follower for path in handlers if "pod" in path}
    bodies |= {path: exception for path in handlers if "exception" in path}
    paths = [route.path for route in app.routes]  # type: ignore[attr-defined] # all are of one kind
    return Served(app, paths, True, "POST", "", bodies, WEBHOOK_LIMITS, lambda: held.is_idle)


def probes() -> Served:
    health = Health()
    health.set_readiness("passes", passes)
    health.set_readiness("hangs", hangs)
    return Served(health, health.paths, make=lambda: health.server(LOCAL))


def metrics() -> Served:
    app = MetricsApp(Metrics(), Guard(Hanging()), Debug([Hanging()]))  # type: ignore[list-item] # has no set_level
    return Served(app, app.paths, True, headers="authorization: Bearer x\r\n")


def pages() -> Served:
    shown = Hanging()
    app = Pages(Board("x"), shown, hangs).app()  # type: ignore[arg-type] # by `__getattr__`
    known = {"namespace": "ns", "name": "train"}
    paths = [route.path.format(**known) or "/" for route in app.routes]  # type: ignore[attr-defined]
    return Served(Page(app), paths)


SERVERS: dict[str, Callable[[], Served]] = {
    "app/manager/admission.py": webhooks,
    "app/health.py": probes,
    "app/metrics_server.py": metrics,
    "cli/ui/run.py": pages,
}
"""By the file that makes the server."""


async def _whole(served: Served, path: str, leave: contextlib.AsyncExitStack, size: int, count: int) -> None:
    """Send whole requests, each on a connection of its own; all are worked on, wait, or are answered unread."""
    readers = []
    for _ in range(count):
        reader, writer = await leave.enter_async_context(served.client())
        writer.write(served.request(path, size))
        await writer.drain()
        readers.append(reader)

    await until(lambda: served.working + sum(map(_has_come, readers)) >= count)


async def _part(served: Served, path: str, leave: contextlib.AsyncExitStack, size: int, *, head: bool) -> None:
    _, writer = await leave.enter_async_context(served.client())
    whole = served.request(path, size)
    begun = whole.index(b"\r\n\r\n") + 4
    writer.write(whole[: begun // 2] if head else whole[: (begun + len(whole)) // 2])
    await writer.drain()
    await until(lambda: served.connections >= 1)


async def _ahead(served: Served, path: str, leave: contextlib.AsyncExitStack) -> None:
    """The next requests are there before the answer to the first."""
    reader, writer = await leave.enter_async_context(served.client())
    writer.write(served.request(path) * 3 + served.request(path)[:-1])
    await until(lambda: served.working + _has_come(reader) >= 1)


def _has_come(reader: asyncio.StreamReader) -> bool:
    """Whether there is an answer, of which nothing is read."""
    return bool(reader._buffer) or reader.at_eof()  # type: ignore[attr-defined]


LARGE = BODY_LIMITS.large_bytes + 1
Act = Callable[[Served, str, contextlib.AsyncExitStack], Any]
STATES: dict[str, Act] = {
    "a half head": lambda served, path, leave: _part(served, path, leave, 0, head=True),
    "a half body": lambda served, path, leave: _part(served, path, leave, 0, head=False),
    "half of a large body": lambda served, path, leave: _part(served, path, leave, LARGE, head=False),
    "worked on, or answered and unread": lambda served, path, leave: _whole(served, path, leave, 0, 3),
    "waiting for a place": lambda served, path, leave: _whole(
        served, path, leave, LARGE, BODY_LIMITS.max_large_reviews + 3
    ),
    "requests ahead": _ahead,
}


async def abandon(served: Served, path: str, act: Act) -> None:
    """Open requests in a state, leave, and wait until nothing of them is left; while liveness is answered."""
    probe = probes()
    async with running(served), running(probe):
        before = asyncio.all_tasks()
        async with contextlib.AsyncExitStack() as leave:
            await act(served, path, leave)
            await alive(probe)
        await alive(probe)

        def left() -> set[Any]:
            return {task for task in asyncio.all_tasks() - before if task.get_name() != "readiness"}

        try:
            await until(lambda: not (served.working or served.connections or left()) and served.is_idle(), 3)
        except TimeoutError:
            raise AssertionError(f"work goes on: {served.working} requests, {left()}, {served.is_idle()}") from None


async def alive(probe: Served) -> None:
    """Liveness is answered at once."""
    async with asyncio.timeout(2), probe.client() as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


@contextlib.asynccontextmanager
async def running(served: Served) -> AsyncIterator[None]:
    task = asyncio.create_task(served.server.run())
    await served.server.started.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
