"""Who may scrape: the table of answers, how long they are believed, and what certificate is shown."""

import asyncio
import ssl
import sys
from pathlib import Path

import pytest
from cryptography import x509

from app.metrics import Metrics
from app.metrics_server import (
    Guard,
    MetricsApp,
    MetricsServer,
    RefusedError,
    ScrapeLimits,
    metrics_server,
)
from app.settings import TLSSettings
from certs.renewal import self_signed
from httpserver.address import bind
from httpserver.server import Server
from kube.client import Client
from kube.errors import TransportError
from kube.reviews import Reviewer, User
from kube.transport import Request, Response
from tests.support.cluster.requests import eventually
from tests.support.serving import LOCAL, fetch, serving

ALICE = User("alice", "1", ["scrapers"], {"k": ["v"]})


class FakeReviewer:
    """Tokens are user names; `allowed` users may read. Counts what it is asked."""

    def __init__(self) -> None:
        self.users = {"good": ALICE, "poor": User("mallory")}
        self.allowed = {"alice"}
        self.broken: set[str] = set()
        self.asked: list[tuple[str, ...]] = []

    async def authenticate(self, token: str) -> User | None:
        self.asked.append(("token", token))
        if "authenticate" in self.broken:
            raise TransportError("no answer")
        return self.users.get(token)

    async def authorize(self, user: User, verb: str, path: str) -> bool:
        self.asked.append(("access", user.username, verb, path))
        if "authorize" in self.broken:
            raise TransportError("no answer")
        return user.username in self.allowed


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def answer(guard: Guard, authorization: str, method: str = "GET") -> tuple[int, str]:
    try:
        return 200, (await guard.admit(authorization, method, "/metrics")).username
    except RefusedError as refused:
        return refused.status, refused.text


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        ("", (401, "Unauthorized")),
        ("Basic Zm9vOmJhcg==", (401, "Unauthorized")),
        ("Bearer", (401, "Unauthorized")),
        ("Bearer  ", (401, "Unauthorized")),
        ("Bearer bad", (401, "Unauthorized")),
        ("Bearer " + "x" * 20_000, (401, "Unauthorized")),
        ("Bearer poor", (403, "Authorization denied for user mallory")),
        ("Bearer good", (200, "alice")),
        ("bearer good", (200, "alice")),
    ],
)
async def test_answers(authorization: str, expected: tuple[int, str]) -> None:
    assert await answer(Guard(FakeReviewer()), authorization) == expected


async def test_no_review_is_sent_for_what_cannot_be_a_token() -> None:
    reviewer = FakeReviewer()
    for authorization in ("", "Basic x", "Bearer", "Bearer " + "x" * 20_000):
        await answer(Guard(reviewer), authorization)
    assert reviewer.asked == []


async def test_the_verb_is_the_method_in_lower_case_on_the_path() -> None:
    reviewer = FakeReviewer()
    await answer(Guard(reviewer), "Bearer good", "POST")
    assert reviewer.asked[1] == ("access", "alice", "post", "/metrics")


@pytest.mark.parametrize(
    ("broken", "text"),
    [("authenticate", "Authentication failed"), ("authorize", "Authorization for user alice failed")],
)
async def test_when_the_api_server_does_not_answer(broken: str, text: str) -> None:
    reviewer = FakeReviewer()
    guard = Guard(reviewer)
    reviewer.broken = {broken}
    assert await answer(guard, "Bearer good") == (500, text)
    reviewer.broken = set()
    assert (await answer(guard, "Bearer good"))[0] == 200, "a failure is not remembered"


async def test_a_review_that_hangs_is_a_500() -> None:
    limits = ScrapeLimits(review_timeout=0.05)
    running: set[str] = set()
    peak = 0

    class Hanging(FakeReviewer):
        async def authenticate(self, token: str) -> User | None:
            nonlocal peak
            running.add(token)
            peak = max(peak, len(running))
            try:
                return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never comes
            finally:
                running.remove(token)

    guard = Guard(Hanging(), limits=limits)
    answers = await asyncio.gather(*(answer(guard, f"Bearer {n}") for n in range(20)))
    assert set(answers) == {(500, "Authentication failed")}
    assert peak == limits.reviews_at_once, "others wait for their turn"


async def test_a_good_token_is_believed_for_a_minute_and_a_right_for_five() -> None:
    reviewer, clock = FakeReviewer(), Clock()
    guard = Guard(reviewer, clock=clock)

    async def asked() -> list[str]:
        reviewer.asked.clear()
        await answer(guard, "Bearer good")
        return [what for what, *_ in reviewer.asked]

    assert await asked() == ["token", "access"]
    clock.now += 59.9
    assert await asked() == []
    clock.now += 0.2
    assert await asked() == ["token"]
    clock.now += 300 - 60.2
    assert await asked() == ["token"]
    clock.now += 0.2
    assert await asked() == ["access"]


async def test_rights_end_five_minutes_after_they_are_revoked_and_start_half_a_minute_late() -> None:
    reviewer, clock = FakeReviewer(), Clock()
    guard = Guard(reviewer, clock=clock)
    assert (await answer(guard, "Bearer good"))[0] == 200
    assert (await answer(guard, "Bearer poor"))[0] == 403
    reviewer.allowed = {"mallory"}
    clock.now += 29.9
    assert (await answer(guard, "Bearer poor"))[0] == 403
    clock.now += 0.2
    assert (await answer(guard, "Bearer poor"))[0] == 200
    assert (await answer(guard, "Bearer good"))[0] == 200
    clock.now += 270
    assert (await answer(guard, "Bearer good"))[0] == 403


async def test_a_revoked_token_ends_within_a_minute_and_bad_ones_are_not_remembered() -> None:
    reviewer, clock = FakeReviewer(), Clock()
    guard = Guard(reviewer, clock=clock)
    assert (await answer(guard, "Bearer good"))[0] == 200
    reviewer.users = {"bad": ALICE}
    clock.now += 60.1
    assert (await answer(guard, "Bearer good"))[0] == 401
    assert (await answer(guard, "Bearer bad"))[0] == 200


async def test_a_right_is_of_one_verb_and_one_whole_identity() -> None:
    reviewer = FakeReviewer()
    guard = Guard(reviewer)
    reviewer.users["twin"] = User("alice", "2", ["scrapers"], {"k": ["v"]})
    for token, method in (("good", "GET"), ("good", "POST"), ("twin", "GET")):
        await answer(guard, f"Bearer {token}", method)
    assert len([what for what, *_ in reviewer.asked if what == "access"]) == 3


async def test_memory_is_bounded_and_holds_no_token() -> None:
    reviewer, limits = FakeReviewer(), ScrapeLimits(cache_size=10)
    guard = Guard(reviewer, limits=limits)
    for number in range(limits.cache_size + 50):
        reviewer.users[f"secret-{number}"] = User(f"user-{number}")
        await answer(guard, f"Bearer secret-{number}")
    assert len(guard._users._entries) == limits.cache_size
    assert len(guard._rights._entries) == limits.cache_size
    assert "secret-" not in repr(guard._users._entries)


async def test_the_page() -> None:
    metrics = Metrics()
    metrics.leader("lease", True)
    async with serving(Server(MetricsApp(metrics, Guard(FakeReviewer())), bind(LOCAL, "a test"))) as port:
        url = f"http://127.0.0.1:{port}"
        status, text = await fetch(f"{url}/metrics", {"Authorization": "Bearer good"})
        assert status == 200
        assert 'leader_election_master_status{name="lease"} 1.0' in text
        assert await fetch(f"{url}/metrics") == (401, "Unauthorized\n")
        assert (await fetch(f"{url}/metrics", {"Authorization": "Bearer poor"}))[0] == 403
        assert (await fetch(f"{url}/other", {"Authorization": "Bearer good"}))[0] == 404


class NoTransport:
    """There is no API server."""

    async def send(self, request: Request) -> Response:
        raise TransportError("there is none")

    def stream(self, request: Request) -> object:
        raise AssertionError

    async def close(self) -> None: ...


def start(metrics: Metrics, cert_dir: Path) -> MetricsServer:
    app = MetricsApp(metrics, Guard(Reviewer(Client(NoTransport()))))
    return metrics_server(app, LOCAL, cert_dir=str(cert_dir), tls=TLSSettings(), poll_seconds=0.01)


async def shown(port: int) -> bytes:
    """PEM of the certificate that the server shows."""
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=5)
    return pem.encode()


def mount(folder: Path, pair: tuple[bytes, bytes]) -> None:
    (folder / "tls.crt").write_bytes(pair[0])
    (folder / "tls.key").write_bytes(pair[1])


def expiry(metrics: Metrics) -> list[float]:
    """Unix times of the metrics server's certificate in a scrape: one or none."""
    lines = metrics.render()[0].decode().splitlines()
    prefix = 'jobset_certificate_expiry_seconds{name="metrics"} '
    return [float(line.removeprefix(prefix)) for line in lines if line.startswith(prefix)]


async def test_without_a_certificate_one_is_made_up_for_localhost(tmp_path: Path) -> None:
    metrics = Metrics()
    async with serving(start(metrics, tmp_path / "none")) as port:
        certificate = x509.load_pem_x509_certificate(await shown(port))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert await fetch(f"https://127.0.0.1:{port}/metrics") == (401, "Unauthorized\n")
        token = {"Authorization": "Bearer x"}
        assert await fetch(f"https://127.0.0.1:{port}/metrics", token) == (500, "Authentication failed\n")
    assert expiry(metrics) == [], "a certificate of our own making needs no alert"


async def test_only_http_1_1_is_offered(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(start(Metrics(), tmp_path)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        await writer.wait_closed()


def errors(metrics: Metrics) -> float:
    """How often the files could not be used: once for each look at them."""
    lines = metrics.render()[0].decode().splitlines()
    name = "certwatcher_read_certificate_errors_total "
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


async def test_the_mounted_certificate_is_served_and_followed(tmp_path: Path) -> None:
    first, second = self_signed(), self_signed()
    mount(tmp_path, first)
    metrics = Metrics()
    async with serving(start(metrics, tmp_path)) as port:
        assert await shown(port) == first[0]
        until = x509.load_pem_x509_certificate(first[0]).not_valid_after_utc.timestamp()
        assert expiry(metrics) == [until]
        (tmp_path / "tls.crt").write_bytes(second[0])

        async def complained() -> bool:
            return errors(metrics) > 0

        await eventually(complained)
        assert await shown(port) == first[0], "half of a new pair must not break the old one"
        (tmp_path / "tls.key").write_bytes(second[1])

        async def renewed() -> bool:
            return await shown(port) == second[0]

        await eventually(renewed)


@pytest.mark.parametrize("key", [None, b"rubbish", self_signed()[1]])
async def test_a_pair_that_cannot_be_served_is_counted_and_replaced_by_our_own(
    tmp_path: Path, key: bytes | None
) -> None:
    mounted = self_signed()[0]
    (tmp_path / "tls.crt").write_bytes(mounted)
    if key is not None:
        (tmp_path / "tls.key").write_bytes(key)
    metrics = Metrics()
    async with serving(start(metrics, tmp_path)) as port:
        assert await shown(port) != mounted
        assert errors(metrics) > 0


async def test_a_certificate_that_cannot_be_made_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = metrics_server(
        MetricsApp(Metrics(), Guard(FakeReviewer())), LOCAL, cert_dir=str(tmp_path), tls=TLSSettings(), retry_after=0.01
    )
    task = asyncio.create_task(server.run())
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")

        async def failing() -> bool:
            return (await server.unready() or "").startswith("metrics certificate: the process that makes certificates")

        await eventually(failing)
    await asyncio.wait_for(server.started.wait(), 10)
    assert await server.unready() is None
    assert await shown(server.port)
    assert len([record for record in caplog.records if "metrics certificate" in record.message]) == 1
    server.stop()
    await asyncio.wait_for(task, 10)
