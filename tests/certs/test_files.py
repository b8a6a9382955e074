"""Certificates given as files: waited for, followed, and never broken by a half-written pair."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from certs.files import FileCertificates, MissingFilesError
from certs.material import Material
from certs.pki import read_certificates
from certs.source import LiveContext, Observer
from certs.tls import server_context
from kube.clock import rfc3339
from tests.certs.test_tls import app
from tests.support.beside import beside
from tests.support.tls import NOW, material, serial, served_serial, serving, until

PAIR, OTHER = material(), material()
END = read_certificates(PAIR.certificate)[0].not_valid_after_utc


def write(folder: Path, pair: Material) -> None:
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


@contextlib.asynccontextmanager
async def following(folder: Path) -> AsyncIterator[tuple[FileCertificates, int]]:
    context = server_context()
    source = FileCertificates(folder, LiveContext(context), poll_seconds=0.01, first_pair_timeout=10)
    async with serving(app, context) as server, beside(source.run()):
        yield source, server.port


async def test_files_may_come_late_and_change(tmp_path: Path):
    async with following(tmp_path) as (source, port):
        await until(lambda: "cannot read" in source.problem)
        assert not source.ready.is_set()
        write(tmp_path, PAIR)
        await asyncio.wait_for(source.ready.wait(), 10)
        assert await served_serial(port, PAIR.authorities) == serial(PAIR.certificate)
        write(tmp_path, OTHER)
        await until(lambda: source._live.certificate == OTHER.certificate)
        assert await served_serial(port, OTHER.authorities) == serial(OTHER.certificate)


async def test_a_half_written_pair_is_left_alone_until_it_is_whole(tmp_path: Path):
    write(tmp_path, PAIR)
    async with following(tmp_path) as (source, port):
        await source.ready.wait()
        (tmp_path / "tls.crt").write_bytes(OTHER.certificate)
        await until(lambda: "cannot be used" in source.problem)
        assert await served_serial(port, PAIR.authorities) == serial(PAIR.certificate)
        (tmp_path / "tls.key").write_bytes(OTHER.key)
        await until(lambda: not source.problem)
        assert await served_serial(port, OTHER.authorities) == serial(OTHER.certificate)


async def test_files_that_never_come_are_an_error_that_says_how_to_fix_it(tmp_path: Path):
    source = FileCertificates(
        tmp_path / "nowhere", LiveContext(server_context()), poll_seconds=0.01, first_pair_timeout=0.05
    )
    with pytest.raises(MissingFilesError) as missing:
        await source.run()
    text = str(missing.value)
    assert f"cannot read {tmp_path}/nowhere/tls.crt: No such file or directory" in text
    assert "webhook.certDir" in text


async def test_files_that_vanish_later_are_no_reason_to_stop(tmp_path: Path):
    write(tmp_path, PAIR)
    async with following(tmp_path) as (source, port):
        await source.ready.wait()
        (tmp_path / "tls.key").unlink()
        await until(lambda: "tls.key" in source.problem)
        assert await served_serial(port, PAIR.authorities) == serial(PAIR.certificate)


@pytest.mark.parametrize(
    ("hosts", "at", "said"),
    [
        (("hook.ns.svc",), NOW, ""),
        (("other.ns.svc", "127.0.0.1"), NOW, ""),
        ((), NOW, ""),
        (("other.ns.svc",), NOW, "it does not name other.ns.svc"),
        (("hook.ns.svc",), END, f"it has expired at {rfc3339(END)}"),
        (("other.ns.svc",), END, f"it has expired at {rfc3339(END)}, and does not name other.ns.svc"),
    ],
    ids=["good", "one of two", "not known", "another name", "expired", "both"],
)
async def test_a_certificate_that_the_api_server_refuses_is_served_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hosts: tuple[str, ...], at: datetime, said: str
):
    write(tmp_path, PAIR)
    source = FileCertificates(tmp_path, LiveContext(server_context()), hosts=hosts, poll_seconds=0.01, clock=lambda: at)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await source.run()
    assert source.ready.is_set()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ([f"the API server refuses the certificate in {tmp_path}: {said}"] if said else [])
    assert source.problem == "".join(warnings)


class Notices(Observer):
    """Remembers each call."""

    def __init__(self) -> None:
        self.events: list[float | str] = []

    def on_load(self, not_after: float) -> None:
        self.events.append(not_after)

    def on_failure(self) -> None:
        self.events.append("failed")

    def on_authority(self, not_after: float) -> None:
        self.events.append(f"CA until {not_after:.0f}")

    def on_registration(self, configuration: str, webhooks: int) -> None:
        self.events.append(f"{configuration} lists {webhooks}")


async def test_expiry_is_reported_once_and_failures_each_time(tmp_path: Path):
    heard = Notices()
    source = FileCertificates(tmp_path, LiveContext(server_context(), heard), poll_seconds=0.01, first_pair_timeout=10)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(source.run())
        await until(lambda: heard.events[:2] == ["failed", "failed"])
        write(tmp_path, PAIR)
        await source.ready.wait()
        task.cancel()
    loaded = [event for event in heard.events if event != "failed"]
    assert loaded == [read_certificates(PAIR.certificate)[0].not_valid_after_utc.timestamp()]
