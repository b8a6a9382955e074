"""The neighbour does what it is to do to our own server; the prober finds servers that others cannot use."""

import asyncio
import json
import random
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict

import pytest

from dev.chaos import beside, hostile, neighbour, prober
from dev.chaos.checks.strangers import LIVENESS, NO_ANSWER, REVIEW, Answer
from dev.local import LocalError
from tests.support.tls import context_with, material, serving, until
from tests.support.webhook_app import APP, PATHS, ask
from webhooks.body import BODY_LIMITS
from webhooks.review import MAX_BODY, field_count

PAIR = material()
CHANCE = random.SystemRandom()
WEBHOOKS = hostile.Port("webhooks", 1, PATHS[1], tls=True)


def body(name: str) -> bytes:
    [habit] = [habit for habit in neighbour.HABITS if habit.name == name]
    return b"".join(habit.parts(WEBHOOKS, CHANCE)).partition(b"\r\n\r\n")[2]


def test_lists_are_nearly_as_large_as_what_is_read():
    assert MAX_BODY * 0.99 < len(body("large list")) <= MAX_BODY
    assert BODY_LIMITS.large_bytes < len(body("half a large body")) < MAX_BODY * 0.6


async def test_the_set_with_many_variables_is_small_costly_and_admitted():
    review = body("many variables")
    assert len(review) < 24 * 1024
    assert field_count(review) > BODY_LIMITS.costly_fields
    assert (await ask(review))["allowed"]


def test_the_policy_of_its_namespace_denies_one_set_and_not_the_others():
    denied = json.loads(body("denied by policy"))["request"]["object"]
    small = json.loads(prober.BODY)["request"]["object"]
    most = neighbour.policy()["spec"]["rules"]["maxJobs"]["max"]
    assert [sum(group["replicas"] for group in one["spec"]["replicatedJobs"]) > most for one in (denied, small)] == [
        True,
        False,
    ]


async def test_every_habit_gets_to_the_server_and_is_gone_in_the_end(monkeypatch, caplog, capsys):
    made, habits = Counter(), {habit.name for habit in neighbour.HABITS}
    monkeypatch.setattr(neighbour, "Counter", lambda: made)
    monkeypatch.setattr(neighbour, "UPGRADE_REQUESTS", 20)
    monkeypatch.setattr(neighbour, "_largest_review", lambda _: bytes(2 * neighbour.CHUNK_BYTES))
    async with serving(APP, context_with(PAIR)) as server:
        ports = [hostile.Port(serves, server.port, PATHS[1], tls=True) for serves in ("webhooks", "probes", "metrics")]
        ports.append(hostile.Port("nobody", 1, "/"))
        playing = asyncio.create_task(neighbour.play({"seed": 1, "ports": [asdict(port) for port in ports]}))
        await until(lambda: caplog.text.count("Invalid HTTP request received") >= 3 and set(made) == habits, 60)
        playing.cancel()
        await asyncio.wait({playing})
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.close()
    assert set(json.loads(capsys.readouterr().out)) == habits


async def test_the_neighbour_comes_to_each_of_its_ports_in_turn(monkeypatch):
    visited = set()

    async def visit(port: hostile.Port, *_: object, **__: object) -> None:
        visited.add(port.number)

    monkeypatch.setattr(neighbour, "run_client", visit)
    monkeypatch.setattr(neighbour, "TURN_SECONDS", 0.01)
    habit = neighbour.Habit(
        "large list", neighbour.HABITS[0].parts, ("webhooks",), period=0.001, max_seconds=1, one_replica_at_a_time=True
    )
    ports = [hostile.Port("webhooks", number, "/") for number in range(3)]
    task = asyncio.create_task(neighbour._repeat_habit(habit, ports, CHANCE, neighbour.Counter()))
    await until(lambda: visited == {0, 1, 2})
    task.cancel()


@asynccontextmanager
async def answering(data: bytes | None):
    """A server that says the same to everybody and closes, or says nothing (None)."""

    served = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        with suppress(ConnectionError):
            await reader.read(10_000)
            if data is None:
                await reader.read()
            else:
                writer.write(data)
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nok", ""),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP 503"),
        (b"", "HTTP none"),
        (None, NO_ANSWER),
    ],
    ids=["lives", "refuses", "closes", "hangs"],
)
async def test_the_prober_says_what_is_wrong_with_liveness(monkeypatch, capsys, data, fault):
    monkeypatch.setitem(prober.DEADLINE_SECONDS, LIVENESS, 0.2 if fault == NO_ANSWER else 10)
    async with answering(data) as port:
        await prober._probe_liveness("replica-0", hostile.Port("probes", port, "/readyz"), 0)
    found = Answer(*json.loads(capsys.readouterr().out))
    assert (found.replica, found.kind, found.fault) == ("replica-0", LIVENESS, fault)
    assert found.end > found.at > 1_000_000_000


async def test_a_port_that_nobody_listens_at_is_refused(capsys):
    await prober._probe_liveness("replica-0", hostile.Port("probes", 1, "/readyz"), 0)
    assert Answer(*json.loads(capsys.readouterr().out)).fault == "ConnectionRefusedError"


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        ({"allowed": True}, ""),
        ({"allowed": False, "status": {"code": 429}}, "HTTP 200, code 429"),
        (None, "HTTP 200"),
    ],
)
async def test_a_small_review_that_is_not_admitted_has_a_fault(capsys, response, fault):
    data = b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps({"response": response}).encode()
    async with answering(data) as port:
        await prober._send_review("replica-0", hostile.Port("webhooks", port, "/"), 0)
    assert Answer(*json.loads(capsys.readouterr().out)).fault == fault


async def test_small_reviews_have_4_kib_and_are_admitted_by_turns_of_both_webhooks(capsys):
    assert 4000 < len(prober.BODY) < 4400
    async with serving(APP, context_with(PAIR)) as server:
        for number in range(2):
            await prober._send_review("replica-0", hostile.Port("webhooks", server.port, "/", tls=True), number)
    found = [Answer(*json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert [(one.kind, one.fault) for one in found] == [(REVIEW, "")] * 2


async def test_a_program_beside_works_until_the_block_ends(tmp_path):
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nok") as port:
        ports = [asdict(hostile.Port(serves, port, "/")) for serves in ("webhooks", "probes")]
        output = tmp_path / "probed"
        with beside.running("dev.chaos.prober", {"replica-0": ports}, output):
            await until(lambda: output.read_text().count("\n") >= 2, 30)
    assert {Answer(*json.loads(line)).kind for line in output.read_text().splitlines()} == {LIVENESS, REVIEW}


def test_a_program_beside_that_fails_is_no_run(tmp_path, capfd):
    with (
        pytest.raises(LocalError, match=r"chaos\.prober ended with exit code 1"),
        beside.running("dev.chaos.prober", {"replica-0": []}, tmp_path / "probed"),
    ):
        pass
    assert "KeyError" in capfd.readouterr().err
