"""What a worker reports to the manager, and how its end is noticed."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from api.features import FeatureGates
from app.debug.pages import COMMANDS
from app.manager.options import Options, Shared
from app.manager.process import obey_manager, serve_as_worker
from app.metrics import Metrics
from app.settings import Settings
from app.workers import (
    MAX_ANSWERS,
    MAX_DECISIONS,
    MAX_REPORT,
    MAX_USED_EXCEPTIONS,
    STOP,
    Records,
    Worker,
    WorkerError,
    fork_workers,
)
from dev.local import MANAGER_COMMAND, configuration, free_port
from httpserver.address import bind
from policy.kinds import PolicyId
from tests.support.kubeconfigs import Quiet, kubeconfig, serving_http
from tests.support.serving import LOCAL
from tests.support.tls import until


class RecordedMetrics:
    """Metrics that keep every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, float] | str] = []

    def on_start(self, path: str) -> None:
        self.calls.append(path)

    def on_refusal(self, path: str, rule: str) -> None:
        self.calls.append((path, rule))

    def on_finish(self, path: str, code: int, seconds: float) -> None:
        self.calls.append((path, code, seconds))

    def count_decision(self, policy: PolicyId, rule: str, action: str, count: int = 1) -> None:
        self.calls.append(f"{policy.name} {policy.uid} {rule} {action} {count}")

    def record_exception_use(self, namespace: str, name: str, uid: str) -> None:
        self.calls.append(f"{namespace} {name} {uid}")


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[Worker, asyncio.StreamReader, asyncio.StreamWriter]]:
    """The manager's side, and streams of the worker's."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    try:
        yield Worker(1, ours), reader, writer
    finally:
        writer.close()


async def test_the_manager_counts_what_a_worker_answers():
    records, heard = Records(), RecordedMetrics()
    async with pair() as (worker, reader, writer):
        watching = asyncio.create_task(worker.watch(heard))
        telling = asyncio.create_task(records.send(writer, every=0.01))
        records.on_start("/a")
        records.on_finish("/a", 200, 0.25)
        records.on_start("/a")
        await until(lambda: len(heard.calls) == 3)
        assert heard.calls == ["/a", "/a", ("/a", 200, 0.25)]
        for rule in ("one", "two", "one"):
            records.on_refusal("/a", rule)
        records.on_finish("/a", 422, 0.5)
        await until(lambda: len(heard.calls) == 7)
        assert sorted(heard.calls[3:6]) == [("/a", "one"), ("/a", "one"), ("/a", "two")]
        assert heard.calls[6] == ("/a", 422, 0.5)
        records.count_decision(PolicyId("limits", "1"), "maxJobs", "Deny")
        records.count_decision(PolicyId("limits", "1"), "maxJobs", "Deny")
        await until(lambda: len(heard.calls) == 8)
        assert heard.calls[7] == "limits 1 maxJobs Deny 2"
        for name in ("big-run", "big-run", "other"):
            records.record_exception_use("team-a", name, f"uid of {name}")
        await until(lambda: len(heard.calls) == 10)
        assert heard.calls[8:] == ["team-a big-run uid of big-run", "team-a other uid of other"]
        worker.stop()
        assert await asyncio.wait_for(reader.read(1), 5) == STOP
        telling.cancel()
        writer.close()
        await asyncio.wait_for(watching, 5)


async def test_they_are_the_managers_own_series():
    metrics = Metrics()
    records = Records()
    records.on_start("/a")
    records.on_refusal("/a", "some-rule")
    records.on_finish("/a", 200, 0.25)
    async with pair() as (worker, _, writer):
        worker.stop()
        writer.write(records.report())
        writer.write_eof()
        await asyncio.wait_for(worker.watch(metrics.webhooks), 5)
    text = metrics.render()[0].decode()
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="/a"} 1.0' in text
    assert 'controller_runtime_webhook_requests_in_flight{webhook="/a"} 0.0' in text
    assert 'jobset_admission_refusals_total{rule="some-rule",webhook="/a"} 1.0' in text
    assert 'controller_runtime_webhook_latency_seconds_sum{webhook="/a"} 0.25' in text


async def test_a_worker_that_ends_unasked_is_an_error():
    async with pair() as (worker, _, writer):
        watching = asyncio.create_task(worker.watch(RecordedMetrics()))
        writer.close()
        with pytest.raises(WorkerError, match="admission worker 1 ended"):
            await asyncio.wait_for(watching, 5)


def test_a_worker_that_cannot_start_says_why_in_one_line(capfd: pytest.CaptureFixture[str]):
    options = Options(Settings(), FeatureGates(), kubeconfig="/nowhere/kubeconfig")
    with (
        contextlib.closing(bind(LOCAL, "webhooks")) as listener,
        fork_workers(1, lambda channel: serve_as_worker(options, Shared(listener), channel)) as [worker],
        pytest.raises(WorkerError, match=f"admission worker {worker.pid} ended"),
    ):
        asyncio.run(worker.watch(RecordedMetrics()))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"jobset manager: admission worker {worker.pid}: ")
    assert "/nowhere/kubeconfig" in lines[0]


class NoJobSets(Quiet, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"resources": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_credentials_are_read_before_the_fork_by_one_process_for_all(tmp_path: Path):
    times = tmp_path / "times"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}
    plugin = {
        "apiVersion": credential["apiVersion"],
        "command": "sh",
        "args": ["-c", f"echo >> {times}; echo '{json.dumps(credential)}'"],
        "interactiveMode": "Never",
    }
    (tmp_path / "manager.yaml").write_text(
        yaml.safe_dump(configuration(free_port(), free_port(), leaderElection={"leaderElect": False}))
    )
    with serving_http(NoJobSets) as (_, address):
        flags = [f"--config={tmp_path / 'manager.yaml'}", f"--kubeconfig={kubeconfig(tmp_path, address, exec=plugin)}"]
        done = subprocess.run([*MANAGER_COMMAND, *flags], check=False, capture_output=True, text=True, timeout=60)  # noqa: S603 (ourselves)
    assert "the cluster does not serve jobsets" in done.stderr
    assert times.read_text() == "\n"


def test_workers_finish_their_requests_after_the_manager_has_failed():
    """It loses the lease, for example: whoever waits for an answer gets it all the same."""
    reading, writing = os.pipe()

    def work(channel: socket.socket) -> None:
        assert channel.recv(1) == STOP
        time.sleep(1)
        os.write(writing, b"answered")

    with pytest.raises(ZeroDivisionError), fork_workers(1, work):
        raise ZeroDivisionError
    os.close(writing)
    assert os.read(reading, 100) == b"answered"
    os.close(reading)


async def test_a_worker_writes_the_page_and_takes_the_level_that_the_manager_asks_for():
    records, heard, stop, root = Records(), RecordedMetrics(), asyncio.Event(), logging.getLogger()
    records.on_start("/a")
    before = root.level
    async with pair() as (worker, reader, writer):
        beside = [
            asyncio.create_task(worker.watch(heard)),
            asyncio.create_task(records.send(writer, every=60)),
        ]
        obeying = asyncio.create_task(obey_manager(reader, records, stop))
        try:
            async with asyncio.timeout(10):
                await until(lambda: heard.calls == ["/a"])
                assert "thread MainThread" in await worker.page(COMMANDS["/debug/stacks"]), "it does not take a minute"
                assert "blocks of Python" in await worker.page(COMMANDS["/debug/objects"])
                worker.set_level(logging.ERROR)
                await until(lambda: root.level == logging.ERROR)
                worker.stop()
                await obeying
        finally:
            root.setLevel(before)
            for task in beside:
                task.cancel()
    assert stop.is_set()


async def test_a_watch_that_is_cancelled_when_a_report_comes_ends():
    """A manager whose part has failed ends all others, and would wait for this one for ever."""
    for turns in range(12):
        async with pair() as (worker, _, writer):
            watching = asyncio.create_task(worker.watch(RecordedMetrics()))
            await until(lambda worker=worker: worker._writer is not None)
            writer.write(Records().report())
            for _ in range(turns):
                await asyncio.sleep(0)
            watching.cancel()
            assert await asyncio.wait({watching}, timeout=5) == ({watching}, set()), f"{turns} turns of the loop later"


async def test_a_worker_that_does_not_report_is_an_error():
    async with pair() as (worker, _, writer):
        writer.write(Records().report())
        with pytest.raises(WorkerError, match="admission worker 1 hangs"):
            await asyncio.wait_for(worker.watch(RecordedMetrics(), timeout=0.05), 5)


async def test_a_worker_that_cannot_report_keeps_a_bounded_number():
    records = Records()
    for _ in range(MAX_ANSWERS + 10):
        records.on_finish("/a", 200, 0.001)
    assert records.report().count(b"200") == MAX_ANSWERS
    for number in range(MAX_DECISIONS + 10):
        records.count_decision(PolicyId(f"limits-{number}", "1"), "maxJobs", "Deny")
    assert records.report().count(b"limits-") == MAX_DECISIONS
    for number in range(MAX_USED_EXCEPTIONS + 10):
        records.record_exception_use("team-a", f"run-{number}", f"uid-{number}")
    assert records.report().count(b"uid-") == MAX_USED_EXCEPTIONS
    assert records.report() == b'[{},"","",[],[]]\n'


async def test_a_report_fits_into_the_readers_limit():
    records = Records()
    for i in range(MAX_ANSWERS):
        records.on_finish("/validate-jobset-x-k8s-io-v1alpha2-jobset", 422, 0.0012345678901234567 * i)
    for i in range(MAX_DECISIONS):
        records.count_decision(PolicyId(f"{i:0253}", f"{i:036}"), "requiredAnnotations", "Error")
    assert len(records.report()) < MAX_REPORT


async def test_a_manager_that_is_gone_ends_the_reports():
    async with pair() as (worker, _, writer):
        worker.channel.close()
        await asyncio.wait_for(Records().send(writer, every=0.01), 5)
