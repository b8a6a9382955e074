"""Log lines: what machines parse, what people read, and which flag values are taken."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from app import logs
from app.logs import LogSettingsError
from kube.log_fields import add_log_fields, log_fields

log = logging.getLogger("kube.test_logs")


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    names = (None, *logs.QUIET_LIBRARIES)
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers = list(logging.getLogger().handlers)
    yield
    for logger, level in before:
        logger.setLevel(level)
    logging.getLogger().handlers[:] = handlers


def configured(**flags: Any) -> io.StringIO:
    out = io.StringIO()
    logs.configure(logs.parse(**flags), out)
    return out


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_json_line_has_the_keys_of_controller_runtime() -> None:
    out = configured(devel=False)
    log.info("created %d jobs\nfor %s", 3, "a/b", extra={"namespace": "a"})
    (line,) = lines(out)
    assert list(line) == ["level", "ts", "logger", "msg", "namespace"]
    assert line["level"] == "info"
    assert line["logger"] == "kube.test_logs"
    assert line["msg"] == "created 3 jobs\nfor a/b"
    assert line["namespace"] == "a"
    written = datetime.strptime(line["ts"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60


def test_the_fields_of_a_reconcile_are_on_every_line_of_it_and_on_no_other() -> None:
    out = configured(devel=False)
    log.info("before")
    with log_fields(reconcileID="8f14e45f"):
        log.info("one")
        add_log_fields(uid="8f0e", generation=3)
        logging.getLogger("controllers.other").error("two")
    log.info("after")
    assert [line.get("reconcileID") for line in lines(out)] == [None, "8f14e45f", "8f14e45f", None]
    assert [(line.get("uid"), line.get("generation")) for line in lines(out)][1:3] == [(None, None), ("8f0e", 3)]


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warn", "error", "critical"]),
        ("info", ["info", "warn", "error", "critical"]),
        ("INFO", ["info", "warn", "error", "critical"]),
        ("error", ["error", "critical"]),
        ("panic", ["critical"]),
        ("1", ["info", "warn", "error", "critical"]),
        ("2", ["info", "warn", "error", "critical"]),
        ("3", ["debug", "info", "warn", "error", "critical"]),
        ("10", ["debug", "info", "warn", "error", "critical"]),
        ("", ["info", "warn", "error", "critical"]),
    ],
)
def test_levels(level: str, written: list[str]) -> None:
    out = configured(devel=False, level=level)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        log.log(number, "x")
    assert [line["level"] for line in lines(out)] == written


def test_development_means_console_and_debug_unless_said_otherwise() -> None:
    out = configured()
    log.debug("seen %s", "twice\nover", extra={"namespace": "a"})
    text = out.getvalue()
    assert text.count("\n") == 1
    assert "seen twice\\nover" in text
    assert "kube.test_logs" in text
    assert "namespace=a" in text
    out = configured(devel=True, encoder="json", level="error")
    log.info("not seen")
    log.error("seen")
    assert [line["msg"] for line in lines(out)] == ["seen"]


def test_a_console_line_quotes_what_could_be_misread_and_has_the_traceback_below() -> None:
    out = configured(stacktrace_level="error")
    log.info("one", extra={"namespace": "a b", "text": "x\ny"})
    fail_at(logging.ERROR)
    first, second, *below = out.getvalue().splitlines()
    assert first.endswith("[kube.test_logs] namespace='a b' text='x\\ny'")
    assert second.rstrip().endswith("[kube.test_logs]")
    assert below[0].startswith("Traceback")
    assert below[-1].startswith("ValueError: ")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("epoch", 1700000000.25),
        ("millis", 1700000000250.0),
        ("nano", 1700000000250000000),
        ("iso8601", "2023-11-14T22:13:20.250Z"),
        ("rfc3339", "2023-11-14T22:13:20Z"),
        ("rfc3339nano", "2023-11-14T22:13:20.250000Z"),
    ],
)
def test_time_encodings(encoding: str, expected: object) -> None:
    record = logging.makeLogRecord({"msg": "x", "levelname": "INFO", "levelno": 20, "created": 1700000000.25})
    line = logs.formatter(logs.parse(devel=False, time_encoding=encoding)).format(record)
    assert json.loads(line)["ts"] == expected


def fail_at(level: int) -> None:
    try:
        int("x")
    except ValueError:
        log.log(level, "it failed", exc_info=True)


@pytest.mark.parametrize(
    ("flag", "traced"),
    [("", {"error", "critical"}), ("info", {"info", "warn", "error", "critical"}), ("panic", {"critical"})],
)
def test_stack_traces_from_a_level_on(flag: str, traced: set[str]) -> None:
    out = configured(devel=False, stacktrace_level=flag)
    for level in (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        fail_at(level)
    found = lines(out)
    assert {line["level"] for line in found if "Traceback" in line.get("stacktrace", "")} == traced
    assert {line["level"] for line in found if line.get("error", "").startswith("ValueError: invalid")} == {
        *({"info", "warn", "error", "critical"} - traced)
    }


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"encoder": "xml"}, "--zap-encoder=xml: must be one of json, console"),
        ({"level": "loud"}, "--zap-log-level=loud: must be one of debug, info, error, panic or a number above 0"),
        ({"level": "0"}, "--zap-log-level=0"),
        ({"level": "-1"}, "--zap-log-level=-1"),
        ({"stacktrace_level": "debug"}, "--zap-stacktrace-level=debug: must be one of info, error, panic"),
        ({"time_encoding": "unix"}, "--zap-time-encoding=unix: must be one of epoch, millis, nano, iso8601"),
    ],
)
def test_other_values_are_refused_and_named(flags: dict[str, str], named: str) -> None:
    with pytest.raises(LogSettingsError) as caught:
        logs.parse(**flags)
    assert str(caught.value).startswith(named)


def test_values_that_cannot_be_encoded_never_lose_a_line() -> None:
    out = configured(devel=False)
    log.info("broken name \udcff", extra={"value": object(), "set": {1}, "map": {(1, 2): 3}})
    (line,) = lines(out)
    assert line["msg"] == "broken name \udcff"
    assert line["map"] == "{(1, 2): 3}"


def test_libraries_log_warnings_and_nothing_below() -> None:
    out = configured(devel=False)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("asyncio").warning("slow callback")
    assert [line["msg"] for line in lines(out)] == ["slow callback"]


def test_configuring_twice_writes_once() -> None:
    configured(devel=False)
    out = configured(devel=False)
    log.info("x")
    assert len(lines(out)) == 1
