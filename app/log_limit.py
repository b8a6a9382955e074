"""Limits the log lines of a process, so that a client of a port cannot fill the log.

All call sites in the source share the limit, also those of libraries. `UNLIMITED` lists the exceptions. Each call site
may always write a few lines, so that one call site does not hide the others.
"""

import logging
from collections import Counter
from typing import Final, TextIO

LINES_PER_SECOND: Final = 100
"""Lines that all call sites together write in a second. Further lines are counted and left out."""

OWN_LINES: Final = 5
"""Lines that each call site may always write in a second. Unauthenticated clients reach only a dozen call sites."""

UNLIMITED: Final = {
    "controllers.jobset.controller": "a line for each plan that decides something",
    "kube.controller": "a line for each reconcile that fails",
}
"""Loggers without a limit, with their lines. Requests cannot cause such lines: the work queue and client pace them."""

_LONGEST_TEMPLATE: Final = 120
"""Characters of a message template that a report shows."""

_CallSite = tuple[str, str, int]
"""A logger, and a file and line of the source. Their number is bounded by the size of the program."""


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, within the limit per second."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._second = 0
        self._lines: Counter[_CallSite] = Counter()
        """Lines written in this second, by call site."""
        self._left_out: Counter[_CallSite] = Counter()
        self._templates: dict[_CallSite, str] = {}
        """The message templates of the records that are left out."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record if the limit allows it. First report the records left out in an earlier second."""
        second = int(record.created)
        if second != self._second:
            self._report()
            self._second = second
            self._lines.clear()
        if record.name in UNLIMITED:
            super().emit(record)
            return
        call_site = record.name, record.pathname, record.lineno
        if self._lines[call_site] < OWN_LINES or self._lines.total() < LINES_PER_SECOND:
            self._lines[call_site] += 1
            super().emit(record)
        else:
            self._left_out[call_site] += 1
            self._templates.setdefault(call_site, str(record.msg)[:_LONGEST_TEMPLATE])

    def close(self) -> None:
        """Report the records that were left out in the last second."""
        self._report()
        super().close()

    def _report(self) -> None:
        """Write how many records were left out, one line for each call site."""
        for call_site, template in self._templates.items():
            name, path, line = call_site
            text = "lines left out, beyond %d in a second: %d, such as: %s"
            arguments = (LINES_PER_SECOND, self._left_out[call_site], template)
            super().emit(logging.LogRecord(name, logging.WARNING, path, line, text, arguments, None))
        self._left_out.clear()
        self._templates.clear()
