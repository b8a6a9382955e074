"""The limit of log lines that one place of the program may write, so that nobody who reaches a port can fill the log.

Every place has it, those of libraries and those that are written tomorrow included; `UNLIMITED` are the exceptions.
"""

import logging
from collections.abc import Iterator
from typing import Final, TextIO

LINES_PER_SECOND: Final = 100
"""Lines that each place writes in a second; more are counted and left out."""

UNLIMITED: Final = {
    "controllers.jobset.controller": "a line for each plan that decides something",
    "kube.controller": "a line for each reconcile that fails",
}
"""Loggers without a limit. No request reaches them: the work queue and the limit of the client pace them."""

_LONGEST_TEMPLATE: Final = 120


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, but no more than so many a second of each place.

    A place is a logger and a line of the source, so there are only as many as the program has.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._second = 0
        self._lines: dict[tuple[str, str, int], int] = {}
        self._templates: dict[tuple[str, str, int], str] = {}
        """Of places that are above their limit in this second."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record if its place may write one more; before it, what was left out in an earlier second."""
        second = int(record.created)
        if second != self._second:
            for report in self._reports():
                super().emit(report)
            self._second = second
            self._lines.clear()
            self._templates.clear()
        if record.name in UNLIMITED:
            super().emit(record)
            return
        place = record.name, record.pathname, record.lineno
        lines = self._lines[place] = self._lines.get(place, 0) + 1
        if lines <= LINES_PER_SECOND:
            super().emit(record)
        elif lines == LINES_PER_SECOND + 1:
            self._templates[place] = str(record.msg)[:_LONGEST_TEMPLATE]

    def close(self) -> None:
        """Write what was left out last, too."""
        for report in self._reports():
            super().emit(report)
        self._templates.clear()
        super().close()

    def _reports(self) -> Iterator[logging.LogRecord]:
        for place, template in self._templates.items():
            name, path, line = place
            left_out = self._lines[place] - LINES_PER_SECOND
            text = "lines left out, beyond %d in a second: %d, such as: %s"
            arguments = (LINES_PER_SECOND, left_out, template)
            yield logging.LogRecord(name, logging.WARNING, path, line, text, arguments, None)
