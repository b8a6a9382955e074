"""Formats all log lines as JSON or for a console, as chosen by the flags of zap that Go managers take.

Every module writes with `logging`. The keys of a JSON line are those of controller-runtime (`level`, `ts`, `logger`,
`msg`, `controller`, `namespace`, `name`, `reconcileID`, `stacktrace`), so that existing log queries keep working.
docs/debugging.md has all keys. No module may log request bodies.
"""

import json
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO

import msgspec

from app.control_characters import escape
from app.log_limit import LimitedHandler
from kube import log_fields

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
STACKTRACE_LEVELS: Final = {"info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
ENCODERS: Final = ("json", "console")
QUIET_LIBRARIES: Final = ("uvicorn", "asyncio", "aiohttp")
"""Libraries of which only warnings and errors are logged."""

_STANDARD_ATTRIBUTES: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_COLORS: Final = {"debug": "34", "info": "32", "warn": "33"}
"""ANSI codes by level; red for higher levels."""

TimeEncoding = Callable[[datetime], str | float | int]


class LogSettingsError(ValueError):
    """A log flag has an unknown value. The text is one line with the known values."""


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
    """Validated settings, which `parse` returns. Levels are those of `logging`."""

    encoder: str
    level: int
    stacktrace_level: int
    time_encoding: str


def parse(
    *, devel: bool = True, encoder: str = "", level: str = "", stacktrace_level: str = "", time_encoding: str = ""
) -> LogSettings:
    """Settings from the `--zap-*` flags; "" means that the flag is not given. Raises `LogSettingsError`.

    The default encoder and level are console and debug with `devel`, else json and info, as in Go. `level` is debug,
    info, error, panic, or a verbosity above 0. The verbosities 1 and 2 (which the manifests pass) mean info, higher
    ones debug. Tracebacks are written at `stacktrace_level` (default error) and above. Below this level, an error is
    one line.
    """
    return LogSettings(
        encoder=_require_one_of("--zap-encoder", encoder or ("console" if devel else "json"), ENCODERS),
        level=parse_level(level or ("debug" if devel else "info"), "--zap-log-level="),
        stacktrace_level=STACKTRACE_LEVELS[
            _require_one_of("--zap-stacktrace-level", (stacktrace_level or "error").lower(), STACKTRACE_LEVELS)
        ],
        time_encoding=_require_one_of("--zap-time-encoding", time_encoding or "rfc3339", TIME_ENCODINGS),
    )


def _require_one_of(flag: str, value: str, choices: Any) -> str:
    if value not in choices:
        raise LogSettingsError(f"{flag}={value}: must be one of {', '.join(choices)}")
    return value


def parse_level(text: str, label: str = "level ") -> int:
    """The level of `logging` for a name or number as `parse` takes it. Raises `LogSettingsError`, led by `label`."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return logging.INFO if int(text) <= 2 else logging.DEBUG
    try:
        return LEVELS[text.lower()]
    except KeyError:
        raise LogSettingsError(f"{label}{text}: must be one of {', '.join(LEVELS)} or a number above 0") from None


def level_name(level: int) -> str:
    """The name that `parse_level` takes for a level, else the name that `logging` has for it."""
    return next((name for name, value in LEVELS.items() if value == level), logging.getLevelName(level).lower())


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send every record of `logging` to `stream` (default stderr) in the chosen form. May be called again."""
    out = stream or sys.stderr
    handler = LimitedHandler(out)
    handler.setFormatter(formatter(settings, colors=out.isatty()))
    root = logging.getLogger()
    for old_handler in list(root.handlers):
        root.removeHandler(old_handler)
    root.addHandler(handler)
    # Not in any line, and a fourth of the time of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    set_level(settings.level)


def set_level(level: int) -> None:
    """Write records of this level of `logging` and above from now on."""
    logging.getLogger().setLevel(level)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def formatter(settings: LogSettings, *, colors: bool = False) -> logging.Formatter:
    """The formatter that `configure` installs. `colors`: write colors of a terminal."""
    return _Formatter(settings, _json if settings.encoder == "json" else partial(_console, colors=colors))


class _Formatter(logging.Formatter):
    """Collects the fields of a record in the order of a zap line, for `render` to format."""

    def __init__(self, settings: LogSettings, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._encode_time = TIME_ENCODINGS[settings.time_encoding]
        self._stacktrace_level = settings.stacktrace_level
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        line = {
            "level": "warn" if level == "warning" else level,
            "ts": self._encode_time(datetime.fromtimestamp(record.created, UTC)),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES}
        line |= log_fields.current.get()
        error = record.exc_info and record.exc_info[1]
        if error and record.levelno >= self._stacktrace_level:
            line["stacktrace"] = "".join(traceback.format_exception(error)).rstrip()
        elif error:
            line["error"] = f"{type(error).__name__}: {error}"
        return self._render(line)


def _console(line: dict[str, Any], *, colors: bool) -> str:
    """One line for people, and a traceback below it."""
    level, when, logger, message = (line.pop(key) for key in ("level", "ts", "logger", "msg"))
    trace = line.pop("stacktrace", "")
    level_text = f"[{level:<8}]"
    if colors:
        level_text = f"\x1b[{_COLORS.get(level, '31')}m{level_text}\x1b[0m"
    # A message that quotes text of a user must not look like two lines.
    message = escape(message.replace("\n", "\\n").replace("\r", "\\r"))
    fields = "".join(f" {key}={_field_text(value)}" for key, value in line.items())
    return f"{when} {level_text} {message:<30} [{logger}]{fields}" + (f"\n{escape(trace)}" if trace else "")


def _field_text(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(text)


def _json(line: dict[str, Any]) -> str:
    try:
        return escape(msgspec.json.encode(line, enc_hook=str).decode())
    except (UnicodeEncodeError, TypeError):
        # The line must not be lost if it has lone surrogates, such as bytes of a file name, or unusual keys of a
        # mapping.
        plain = {key: value if isinstance(value, str | int | float) else repr(value) for key, value in line.items()}
        return json.dumps(plain)
