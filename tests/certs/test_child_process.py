"""Work in a process of its own: what it gives, how it fails, when it is done, and what it imports."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from certs.child_process import LONGEST_PAUSE, call_in_process
from certs.decision import decide
from certs.material import Material, Renewal
from certs.tls import CertificateError, server_context
from tests.certs.test_files import Notices
from tests.certs.test_manager import Api, Clock, manager, store
from tests.support.tls import DAY, HOSTS, NOW, material


def test_certificates_are_made_there_and_found_good():
    decision, made = call_in_process("certs.renewal", "decide_and_renew_now", Material(), HOSTS, NOW, "ECDSA", b"")
    assert decision.renewal is Renewal.ALL
    assert decide(made, HOSTS, NOW).renewal is Renewal.NOTHING
    assert (
        call_in_process("certs.renewal", "decide_and_renew_now", made, HOSTS, NOW, "ECDSA", b"")[0].renewal
        is Renewal.NOTHING
    )


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (("certs.renewal", "decide_and_renew_now", Material(), (".",), NOW, "ECDSA", b""), "new certificates for . are of no use: "),
        (("certs.renewal", "decide_and_renew_now"), "TypeError: decide_and_renew_now() missing 5 required positional arguments"),
        (("certs.nothing", "decide_and_renew_now"), "ModuleNotFoundError: No module named 'certs.nothing'"),
        (("os", "abort"), "the process that makes certificates ended with code -6"),
    ],
)  # fmt: skip
def test_what_fails_there_is_named_here(task: tuple[object, ...], text: str):
    with pytest.raises(CertificateError) as error:
        call_in_process(*task)  # type: ignore[arg-type]  # one of the tasks has too few
    assert str(error.value).startswith(text)


def test_a_process_that_hangs_is_ended():
    with pytest.raises(CertificateError, match=r"has not ended within 0.2 s$"):
        call_in_process("time", "sleep", 60, seconds=0.2)


def test_a_process_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CertificateError, match=r"does not start: .*/nowhere/python"):
        call_in_process("time", "time")


def test_neither_folder_nor_environment_changes_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("pickle", "stat"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('theirs')", encoding="ascii")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert call_in_process("operator", "add", 1, 2) == 3


async def test_a_pair_that_was_found_good_is_looked_at_again_on_another_day(monkeypatch: pytest.MonkeyPatch):
    api, clock, days = Api(), Clock(), []
    certs = manager(api, server_context(), clock)
    await certs.check()
    monkeypatch.setattr("certs.manager.call_in_process", lambda *task: days.append(task[4]) or call_in_process(*task))
    for day in (NOW, NOW, NOW + DAY):
        clock.now = day
        await certs.check()
    store(api, material())
    await certs.check()
    assert days == [NOW, NOW + DAY, NOW + DAY]


async def test_what_only_some_libraries_read_as_a_certificate_is_replaced():
    api, good = Api(), material()
    store(api, replace(good, authorities=good.authorities.replace(b"CERTIFICATE", b"X509 CERTIFICATE")))
    certs = manager(api, server_context())
    await certs.check()
    assert certs._live.certificate == api.secret["tls.crt"] != good.certificate


async def test_a_failure_to_make_certificates_is_named_and_they_are_made_later(monkeypatch: pytest.MonkeyPatch):
    api, heard = Api(), Notices()
    certs = manager(api, server_context())
    certs._live.observer = heard
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        assert await certs._check_once() == certs._options.retry_seconds
    assert certs.problem.startswith("webhook certificates: the process that makes certificates does not start: ")
    assert (heard.events[-1], api.secret) == ("failed", {})
    await certs._check_once()
    assert (certs.problem, certs.ready.is_set()) == ("", True)


async def test_a_failure_that_lasts_starts_ever_fewer_processes(monkeypatch: pytest.MonkeyPatch):
    certs = manager(Api(), server_context(), retry_seconds=3)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        pauses = [await certs._check_once() for _ in range(7)]
    assert pauses == [3, 6, 12, 24, 48, LONGEST_PAUSE, LONGEST_PAUSE]
    assert await certs._check_once() == certs._options.check_seconds
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    certs._last_valid_check = None
    assert await certs._check_once() == 3, "it was good in between"
