"""The log level in force. It may be changed for a time. Afterwards the level of the flags holds again."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec

from app.logs import LogSettingsError, level_name, parse_level, set_level
from kube.clock import now, rfc3339
from kube.model.durations import duration_text, parse_duration
from kube.model.jsontree import rephrase_for_json
from kube.model.meta import JSON

log = logging.getLogger(__name__)

DEFAULT_TIME: Final = 15 * 60.0
"""Seconds that a changed level holds."""

MAX_TIME: Final = 24 * 3600.0
"""Most seconds that a changed level can hold."""


class LevelError(ValueError):
    """A request for another level is invalid. The text is one line with the reason."""


class _LevelChange(msgspec.Struct, forbid_unknown_fields=True, rename={"duration": "for"}):
    """The body of a request to change the level. Its key `level` is the key that zap's HTTP handler reads."""

    level: str
    duration: str = ""


class LogLevel:
    """The log level of this process. `tell` passes it on to the other processes.

    Create it in an event loop, after `logs.configure`.
    """

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._configured = self._level = logging.getLogger().level
        self._until = ""
        self._timer: asyncio.TimerHandle | None = None

    def as_json(self) -> JSON:
        """The level; if it was changed, also the time at which it ends and the level that holds then."""
        body: JSON = {"level": level_name(self._level)}
        return {**body, "until": self._until, "then": level_name(self._configured)} if self._until else body

    def change(self, body: bytes) -> None:
        """Apply a body such as `{"level": "debug", "for": "15m"}`. Raises `LevelError`.

        A body with the configured level ends an earlier change at once.
        """
        level, seconds = _parse_change(body)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if level == self._configured:
            self._set(level, "")
            return
        self._timer = asyncio.get_running_loop().call_later(seconds, self._set, self._configured, "")
        self._set(level, rfc3339(now() + timedelta(seconds=seconds)))

    def _set(self, level: int, until: str) -> None:
        self._level, self._until = level, until
        set_level(min(level, logging.INFO))  # so that the next line is always written
        log.info("log level: %s%s", level_name(level), f" until {until}" if until else ", as configured")
        set_level(level)
        self._tell(level)


def _parse_change(body: bytes) -> tuple[int, float]:
    """The level of `logging`, and the seconds that it holds. Raises `LevelError`."""
    try:
        change = msgspec.json.decode(body, type=_LevelChange)
        seconds = parse_duration(change.duration) if change.duration else DEFAULT_TIME
        level = parse_level(change.level)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LevelError(
            f'cannot read the body, write {{"level": "debug", "for": "15m"}}: {rephrase_for_json(error)}'
        ) from None
    except LogSettingsError as error:
        raise LevelError(str(error)) from None
    except ValueError as error:
        raise LevelError(f"for: {error}") from None
    if not 0 < seconds <= MAX_TIME:
        raise LevelError(f"for: must be more than 0 and at most {duration_text(MAX_TIME)}")
    return level, seconds
