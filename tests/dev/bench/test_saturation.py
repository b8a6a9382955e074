"""The closed loop: what it sends is answered, what it counts is what happened."""

import asyncio
import contextlib
import dataclasses

import pytest

from certs.tls import install, server_context
from dev.bench import saturation
from dev.bench.admission import samples
from dev.bench.admission.load import ServerProcess, cores, run_server
from dev.bench.admission.server import new_certificates
from dev.bench.load_generator import Load, run
from dev.bench.output import cells
from dev.cluster.errors import DevclusterError
from webhooks.jobset.handlers import VALIDATE_PATH
from webhooks.review import MAX_BODY

SHORT = Load(connections=4, seconds=0.5, warm_up=0.1)


@pytest.fixture(scope="module")
def process():
    with run_server(cores()[0]) as (running, _):
        yield running


def test_a_row_for_each_webhook_size_and_number_of_connections(process: ServerProcess):
    rows = saturation.measure(
        process.port, process.authorities, 1.0, connections=(1, 3), sizes=("2 KB",), pid=process.process.pid
    )
    assert [(row["webhook"], row["size"], row["connections"]) for row in rows] == [
        ("mutate", "2 KB", 1), ("mutate", "2 KB", 3), ("validate", "2 KB", 1), ("validate", "2 KB", 3),
    ]  # fmt: skip
    for row in rows:
        assert row["requests"] > 0
        assert (row["refused"], row["lost"]) == (0, 0)
        assert row["per_s"] == row["requests"]
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["cpu_us"] > 0
        assert 20 < row["rss_mib"] < 500
    assert all(all(cells(saturation.COLUMNS, row).values()) for row in rows)


def test_the_sizes_are_what_they_are_called(process: ServerProcess):
    rows = saturation.measure(process.port, process.authorities, 0.1, connections=(1,))
    assert [round(row["bytes"] / 1000) for row in rows] == [2, 20, 3, 21]


def test_refusals_are_counted_and_mixed_sizes_of_answers_read(process: ServerProcess):
    bodies = [samples.review(samples.with_defaults(samples.jobset(1))), samples.review(samples.five_faults())]
    load = dataclasses.replace(SHORT, connections=1, seconds=1)
    report = run(process.port, process.authorities, [(VALIDATE_PATH, body) for body in bodies], load)
    assert report["requests"] > 2
    assert abs(report["refused"] - report["requests"] / 2) <= 1
    assert report["answered"] > report["requests"]
    assert report["lost"] == 0


def test_an_answer_that_is_no_review_is_no_success(process: ServerProcess):
    report = run(process.port, process.authorities, [("/nothing-here", b"{}")], SHORT)
    assert report["refused"] == report["requests"] > 0


def test_a_connection_that_the_server_closes_is_lost(process: ServerProcess):
    load = Load(connections=2, seconds=60, warm_up=0)  # it is over when no connection is left
    report = run(process.port, process.authorities, [(VALIDATE_PATH, bytes(MAX_BODY + 1))], load)
    assert (report["lost"], report["answered"]) == (2, 2)


def test_without_a_server_it_says_so(process: ServerProcess):
    with pytest.raises(DevclusterError, match=r"the load generator failed, port 1, (.|\n)*Connection refused"):
        run(1, process.authorities, [(VALIDATE_PATH, b"{}")], SHORT)


async def test_an_answer_in_chunks_is_read_to_its_end(tmp_path):
    """Go sends long answers so."""
    material, context = new_certificates(), server_context()
    install(context, material.certificate, material.key)
    authorities = tmp_path / "ca.crt"
    authorities.write_bytes(material.authorities)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"{}"):
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for chunk in (b'16\r\n{"response":{"allowed"\r\n', b"9\r\n: false}}\r\n", b"0\r\n\r\n"):
                    await writer.drain()
                    writer.write(chunk)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        report = await asyncio.to_thread(run, port, authorities, [(VALIDATE_PATH, b"{}")], SHORT)
    assert report["refused"] == report["requests"] > 0
    assert (report["errors"], report["lost"]) == (0, 0)
