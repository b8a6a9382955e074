"""One way for all log lines: JSON or console on stderr, with the flags of zap that Go managers take.

Every module writes with `logging`; structlog formats. The keys of a JSON line are those of controller-runtime (`level`,
`ts`, `logger`, `msg`, `reconcileID`, `stacktrace`), so that existing log queries keep working. Nothing here or below
may log request bodies.
"""

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from kube.controller import reconcile_id

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
STACKTRACE_LEVELS: Final = {"info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
ENCODERS: Final = ("json", "console")
QUIET: Final = ("uvicorn", "asyncio", "kubernetes_asyncio", "aiohttp")
"""Libraries that tell their own life at info; their warnings are wanted."""

TimeEncoding = Callable[[datetime], str | float | int]


class LogSettingsError(ValueError):
    """A log flag has a value that is not known; one line says which are."""


def _nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000


TIME_ENCODINGS: Final[dict[str, TimeEncoding]] = {
    "epoch": lambda when: when.timestamp(),
    "millis": lambda when: when.timestamp() * 1000,
    "nano": _nanoseconds,
    "iso8601": lambda when: when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z",
    "rfc3339": lambda when: when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "rfc3339nano": lambda when: when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
}
"""Names of `--zap-time-encoding`; all in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Checked settings; make them with `parse`. Levels are those of `logging`."""

    encoder: str
    level: int
    stacktrace_level: int
    time_encoding: str


def parse(
    *, devel: bool = True, encoder: str = "", level: str = "", stacktrace_level: str = "", time_encoding: str = ""
) -> LogSettings:
    """Settings from the `--zap-*` flags; "" = not given. Raises `LogSettingsError`.

    `devel` sets the defaults of the others, as in Go: console and debug, else json and info. `level` is debug, info,
    error, panic, or a verbosity above 0: 1 and 2 (which the manifests pass) mean info, more means debug. Tracebacks are
    written at `stacktrace_level` (default error) and above; below, an error is one line.
    """
    return LogSettings(
        encoder=_one_of("--zap-encoder", encoder or ("console" if devel else "json"), ENCODERS),
        level=_level(level or ("debug" if devel else "info")),
        stacktrace_level=STACKTRACE_LEVELS[
            _one_of("--zap-stacktrace-level", (stacktrace_level or "error").lower(), STACKTRACE_LEVELS)
        ],
        time_encoding=_one_of("--zap-time-encoding", time_encoding or "rfc3339", TIME_ENCODINGS),
    )


def _one_of(flag: str, value: str, known: Any) -> str:
    if value not in known:
        raise LogSettingsError(f"{flag}={value}: must be one of {', '.join(known)}")
    return value


def _level(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return logging.INFO if int(text) <= 2 else logging.DEBUG
    try:
        return LEVELS[text.lower()]
    except KeyError:
        raise LogSettingsError(
            f"--zap-log-level={text}: must be one of {', '.join(LEVELS)} or a number above 0"
        ) from None


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every record of `logging` to `stream` (default stderr) in the chosen form. May be called again."""
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter(settings, colors=out.isatty()))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(settings.level, logging.WARNING))


def formatter(settings: LogSettings, *, colors: bool = False) -> logging.Formatter:
    """The formatter that `configure` installs."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _Timestamp(TIME_ENCODINGS[settings.time_encoding]),
        _add_reconcile_id,
        _Tracebacks(settings.stacktrace_level),
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.encoder == "json":
        last += [_as_zap, structlog.processors.JSONRenderer(serializer=_json)]
    else:
        last += [_on_one_line, structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="ts", sort_keys=False)]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)


class _Timestamp:
    def __init__(self, encode: TimeEncoding) -> None:
        self._encode = encode

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        created: float = event["_record"].created
        event["ts"] = self._encode(datetime.fromtimestamp(created, UTC))
        return event


def _add_reconcile_id(_logger: Any, _method: str, event: EventDict) -> EventDict:
    if current := reconcile_id.get():
        event["reconcileID"] = current
    return event


class _Tracebacks:
    """The traceback of an exception at or above a level; below it the exception's own line."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        record: logging.LogRecord = event["_record"]
        if not record.exc_info or record.exc_info[1] is None:
            event.pop("exc_info", None)
            return event
        if record.levelno >= self._level:
            return structlog.processors.format_exc_info(_logger, _method, event)
        error = record.exc_info[1]
        event.pop("exc_info", None)
        event["error"] = f"{type(error).__name__}: {error}"
        return event


def _as_zap(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """The key names and their order of a zap line."""
    level = event.pop("level")
    first = {"level": "warn" if level == "warning" else level, "ts": event.pop("ts"), "logger": event.pop("logger")}
    traceback = event.pop("exception", None)
    line = {**first, "msg": event.pop("event"), **event}
    return line | ({"stacktrace": traceback} if traceback else {})


def _on_one_line(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A message that quotes others' text must not look like two lines."""
    event["event"] = event["event"].replace("\n", "\\n").replace("\r", "\\r")
    return event


def _json(line: dict[str, Any], **_options: Any) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except (UnicodeEncodeError, TypeError):
        # Lone surrogates (bytes of a file name, say) or odd keys of a mapping: the line must not be lost.
        plain = {key: value if isinstance(value, str | int | float) else repr(value) for key, value in line.items()}
        return json.dumps(plain)
